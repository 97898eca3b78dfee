// Fault points do nothing unless asked; what TRIREME_FAULT asks for happens in a process of its own.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/base/error.hpp"
#include "trireme/base/fault.hpp"

namespace trireme {
namespace {

// The variable is read once in a process, so each case is a process. Returns what waitpid() says.
template <class Work>
int status_with(const char* variable, Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::setenv("TRIREME_FAULT", variable, 1);
        try {
            work();
        } catch (const Error& error) {
            ::_exit(error.exit_code());
        }
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}

TEST(FaultPoint, HappensAtItsPlaceRankAndVisit) {
    const auto three_visits = [] {
        set_fault_rank(1);
        for (int i = 0; i < 3; ++i)
            fault_point("here");
    };
    EXPECT_EQ(WTERMSIG(status_with("here=kill", three_visits)), SIGKILL);
    EXPECT_EQ(WTERMSIG(status_with("there=nospace,here@1#3=kill", three_visits)), SIGKILL);
    EXPECT_EQ(status_with("here#4=kill", three_visits), 0);
    EXPECT_EQ(status_with("here@0=kill", three_visits), 0);
    EXPECT_EQ(status_with("there=kill", three_visits), 0);
    EXPECT_EQ(WEXITSTATUS(status_with("here=nospace", three_visits)), 74);
    EXPECT_EQ(WEXITSTATUS(status_with("here#2=ioerror", three_visits)), 74);
}

TEST(FaultPoint, AWrongVariableIsTold) {
    for (const char* wrong :
         {"here", "here=burn", "=kill", "here#0=kill", "here#x=kill", "here@-1=kill", "here=kill,x"})
        EXPECT_EQ(WEXITSTATUS(status_with(wrong, [] { check_fault_variable(); })), 2) << wrong;
}

} // namespace
} // namespace trireme
