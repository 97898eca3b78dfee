// What one rank sees of its machine, as names and values in text: gathered, sent to rank 0, compared, printed
// and written as JSON alike. A name says what it is of: "interface.eth0.mtu" = "9000".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trireme::cluster {

class Facts {
  public:
    void set(const std::string& name, std::string value) { values_[name] = std::move(value); }
    void set(const std::string& name, std::int64_t value) { set(name, std::to_string(value)); }
    void set(const std::string& name, double value); // six significant digits
    bool has(const std::string& name) const { return values_.contains(name); }
    std::string text(const std::string& name) const; // "" if absent
    std::optional<double> number(const std::string& name) const;
    // The third part of names "PREFIX.X.Y", each once: the interfaces of "interface".
    std::vector<std::string> members(const std::string& prefix) const;
    const std::map<std::string, std::string>& all() const { return values_; }

    std::string packed() const;
    static Facts unpacked(const std::string& bytes);

  private:
    std::map<std::string, std::string> values_;
};

} // namespace trireme::cluster
