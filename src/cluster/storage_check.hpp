// What all ranks see of --save and --data-path. Private to the layer.
#pragma once

#include <string>
#include <vector>

#include "trireme/cluster/facts.hpp"
#include "trireme/comm/runtime.hpp"

namespace trireme::cluster {

// Writes and reads a file a rank in `directory`, all at once, and looks there for what rank 0 wrote. Sets
// save.write_mbs, save.read_mbs, save.free_bytes or save.trouble. Leaves nothing behind. Collective over the
// world.
void check_saving(const std::string& directory, comm::Runtime& runtime, Facts& facts);

// Looks at each file and reads the first of it. Sets data.bytes.FILE, data.read_mbs or data.trouble. No rank
// waits for another.
void check_data(const std::vector<std::string>& files, Facts& facts);

} // namespace trireme::cluster
