// Rules of communication that runs beside computation.
#include "options/checker.hpp"

namespace trireme::options {

void check_overlap(Checker& check) {
    const Values& v = check.values;
    if (check.command != Command::pretrain || !v.overlap_param_gather)
        return;
    if (!v.use_distributed_optimizer)
        check.complain("--overlap-param-gather gathers what --use-distributed-optimizer has cut",
                       {"overlap-param-gather", "use-distributed-optimizer"},
                       "give --use-distributed-optimizer, or leave out --overlap-param-gather");
    if (!v.overlap_grad_reduce)
        check.complain("--overlap-param-gather goes with --overlap-grad-reduce",
                       {"overlap-param-gather", "overlap-grad-reduce"},
                       "give --overlap-grad-reduce, or leave out --overlap-param-gather");
}

} // namespace trireme::options
