// The main function of tests that run on several MPI ranks. A test passes only if it passed on every rank;
// rank 0 alone prints and writes the result file, the others print their failures with their rank. A test
// that some ranks leave early may leave the others waiting: the runner's time-out ends that.
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <mpi.h>

namespace {

// Prints a failure where it happens, with the rank; replaces the usual printer on ranks other than 0.
class RankPrinter : public testing::EmptyTestEventListener {
  public:
    explicit RankPrinter(int rank) : rank_(rank) {}
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed())
            std::cerr << "rank " << rank_ << ": " << (result.file_name() ? result.file_name() : "?") << ":"
                      << result.line_number() << ": " << result.message() << std::endl;
    }

  private:
    int rank_;
};

// Makes one rank's failure everyone's, at the end of each test. Appended last, so that its OnTestEnd comes
// before the printers' and they show the test as failed.
class Agreement : public testing::EmptyTestEventListener {
  public:
    void OnTestEnd(const testing::TestInfo& info) override {
        int failed = info.result()->Failed() ? 1 : 0;
        int anywhere = 0;
        MPI_Allreduce(&failed, &anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (anywhere && !failed)
            ADD_FAILURE() << "failed on another rank (see above)";
    }
};

} // namespace

int main(int argc, char** argv) {
    int provided = 0;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return EXIT_FAILURE;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    testing::InitGoogleTest(&argc, argv);
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (rank != 0) {
        delete listeners.Release(listeners.default_result_printer());
        delete listeners.Release(listeners.default_xml_generator());
        listeners.Append(new RankPrinter(rank));
    }
    listeners.Append(new Agreement);
    int result = RUN_ALL_TESTS();
    int worst = 0;
    MPI_Allreduce(&result, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return worst;
}
