// From the facts of all ranks to findings: what is wrong, where, and the cure. Pure functions of text, so
// that each finding is tested on recorded and made-up facts. Private to the layer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/cluster/facts.hpp"

namespace trireme::cluster {

struct RankFacts {
    int rank = 0;
    std::string host;
    bool speaks_for_node = false; // the first rank of its host holds the node's facts
    Facts facts;
};

struct Finding {
    enum class Kind { failure, warning } kind = Kind::failure;
    int weight = 0; // the worst have most: shown first
    std::string what;
    std::string cure;
};

// What is expected: names and numbers of --expect, over these defaults.
class Expectations {
  public:
    Expectations();
    // Lines `name = number`, # comments. Throws Error (usage) for a name that means nothing or no number.
    void read(const std::string& text, const std::string& source);
    double of(const std::string& name) const { return values_.at(name); } // 0: nothing is expected
    const std::map<std::string, double>& all() const { return values_; }

  private:
    std::map<std::string, double> values_;
};

// All findings, the worst first.
std::vector<Finding> judge(const std::vector<RankFacts>& ranks, const Expectations& expected);

// Whether NCCL would take this interface: a list of prefixes, "=" before it: whole names; "^": all but these.
bool nccl_takes(const std::string& rule, const std::string& interface);

} // namespace trireme::cluster
