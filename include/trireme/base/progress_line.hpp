// Progress for people: one line on a terminal that is written again and again; nothing in a file or a pipe.
#pragma once

#include <cstddef>
#include <string>

namespace trireme {

class ProgressLine {
  public:
    ProgressLine();
    ~ProgressLine(); // wipes the line out
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    // Shows the text if half a second has gone by since the last one.
    template <class MakeText>
    void update(MakeText make_text) {
        if (due())
            show(make_text());
    }
    double seconds() const; // since the line was made

  private:
    bool due();
    void show(const std::string& text);

    bool on_terminal_;
    double start_;
    double shown_ = 0;
    std::size_t width_ = 0;
};

} // namespace trireme
