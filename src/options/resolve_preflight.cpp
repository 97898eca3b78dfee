// The rules of a preflight: of the layout and of the machine.
#include "options/checker.hpp"
#include "options/convert.hpp"
#include "trireme/base/error.hpp"
#include "trireme/options/preflight.hpp"

namespace trireme::options {

ResolvedPreflight resolve_preflight(const Parsed& parsed, const Environment& environment) {
    Checker check(parsed, environment);
    check_layout(check);
    check_split(check);
    check_machine(check);
    throw_problems(check.problems());
    const Values& v = check.values;
    ResolvedPreflight resolved;
    resolved.layout.ranks = environment.ranks;
    resolved.layout.tensor_parallel = v.tensor_model_parallel_size;
    resolved.layout.pipeline_parallel = v.pipeline_model_parallel_size;
    resolved.layout.data_parallel =
        environment.ranks / (v.tensor_model_parallel_size * v.pipeline_model_parallel_size);
    resolved.machine = machine_of(v);
    resolved.save = v.save.value_or("");
    for (const std::vector<std::string>* paths :
         {&v.data_path, &v.train_data_path, &v.valid_data_path, &v.test_data_path})
        for (const std::string& word : *paths)
            if (!to_number(word)) // a weight
                resolved.data_path.push_back(word);
    resolved.expect = v.expect.value_or("");
    resolved.json = v.json;
    return resolved;
}

} // namespace trireme::options
