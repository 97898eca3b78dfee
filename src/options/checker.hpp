// What the rules between options share: which values can be relied on, how options are shown, where problems
// go.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/options/parse.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::options {

// Products of counts below it stay exact, in int64 and in double.
inline constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;

class Checker {
  public:
    Checker(const Parsed& parsed, const Environment& environment)
        : command(parsed.command), values(parsed.values), sources(parsed.sources), env(environment),
          unread(parsed.unread), inherited_from_(parsed.inherited_from), problems_(parsed.problems),
          wrong_(parsed.wrong) {}

    Command command;
    Values values; // derived values are filled in as the rules are passed
    Sources sources;
    const Environment& env;
    bool unread;

    // True if none of the options has been complained about, so that a rule about them makes sense.
    bool sound(std::initializer_list<std::string_view> names) const;
    // From now on not sound: keeps one mistake from being reported again by the rules that build on it.
    void spoil(std::string_view name) { wrong_.insert(std::string(name)); }
    bool given(std::string_view name) const { return sources.given(name); }

    // True if a checkpoint brought the value along: what the user says anew wins over it.
    bool inherited(std::string_view name) const {
        return !inherited_from_.empty() && sources.of(name) == inherited_from_;
    }

    // Reports a broken rule. The options named are shown in one line with their values and where those came
    // from, `extra` beside them.
    void complain(std::string what, std::initializer_list<std::string_view> names, std::string attempt = {},
                  std::string extra = {});
    void complain_about_ranks(std::string what, std::initializer_list<std::string_view> names,
                              std::string attempt);
    void complain_missing(std::string what, std::vector<std::string> details);

    // "--lr 0.1 (command line)"; "--kv-channels (not given)".
    std::string shown(std::string_view name) const;

    // Writes down a value that follows from others.
    template <class T, class U>
    void derive(std::string_view name, T& field, const U& value) {
        field = value;
        sources.set_derived(name);
    }

    const std::vector<Problem>& problems() const { return problems_; }

  private:
    std::string inherited_from_;
    std::vector<Problem> problems_;
    std::set<std::string, std::less<>> wrong_;
};

// The rules, one function for each group of options (rules_*.cpp). Order matters: each relies on what the
// ones before it have derived.
void check_required(Checker& check);
void check_data(Checker& check);
void check_model(Checker& check);
void check_shape(Checker& check);
void check_layout(Checker& check);
void check_split(Checker& check);
void check_overlap(Checker& check);
void check_recompute(Checker& check);
void check_batch(Checker& check);
void check_length(Checker& check);
void check_learning_rate(Checker& check);
void check_weight_decay(Checker& check);
void check_precision(Checker& check);
void check_run(Checker& check);
void check_machine(Checker& check); // part of check_run()

// Of values that check_machine() has passed.
Resolved::Machine machine_of(const Values& values);

} // namespace trireme::options
