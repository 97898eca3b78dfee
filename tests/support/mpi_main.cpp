// The main function of tests that run on several MPI ranks. A test passes only if it passed on every rank:
// each rank's failure becomes everyone's at the end of the test. Rank 0 alone prints the progress and writes
// the result file; the others print their failures, with their rank. A test that some ranks leave early may
// leave the others waiting: the watchdog names who, and ends it.
#include <gtest/gtest.h>
#include <iostream>

#include "support/mpi_test.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::test {

namespace {

comm::Runtime* the_runtime = nullptr;

class RankPrinter : public testing::EmptyTestEventListener {
  public:
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed())
            std::cerr << concat("rank ", runtime().rank(), ": ",
                                result.file_name() ? result.file_name() : "?", ":", result.line_number(),
                                ": ", result.message(), "\n")
                      << std::flush;
    }
};

// Listeners hear the end of a test last to first, so this one, appended last, can still add to the result.
class FailTogether : public testing::EmptyTestEventListener {
  public:
    void OnTestEnd(const testing::TestInfo& info) override {
        double failed = info.result()->Failed() ? 1 : 0;
        const bool here = failed > 0;
        runtime().world().all_reduce({&failed, 1}, comm::ReduceOp::max);
        if (failed > 0 && !here)
            ADD_FAILURE() << info.test_suite_name() << "." << info.name() << " failed on another rank";
    }
};

int run(comm::Runtime& started, int argc, char** argv) {
    the_runtime = &started;
    testing::InitGoogleTest(&argc, argv);
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    if (started.rank() != 0) {
        testing::GTEST_FLAG(output) = "";
        delete listeners.Release(listeners.default_result_printer());
        delete listeners.Release(listeners.default_xml_generator());
        listeners.Append(new RankPrinter);
    }
    listeners.Append(new FailTogether);
    const comm::Watchdog watchdog(started, 120.0);
    double result = RUN_ALL_TESTS();
    started.world().all_reduce({&result, 1}, comm::ReduceOp::max);
    return static_cast<int>(result);
}

} // namespace

comm::Runtime& runtime() {
    return *the_runtime;
}

} // namespace trireme::test

int main(int argc, char** argv) {
    try {
        trireme::comm::Runtime runtime(argc, argv);
        try {
            return trireme::test::run(runtime, argc, argv);
        } catch (const trireme::Error& error) {
            return runtime.report(error);
        }
    } catch (const trireme::Error& error) {
        std::cerr << error.message();
        return error.exit_code();
    }
}
