// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "cli/columns.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/lock_scanner.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"
#include "cli/watch_view.hpp"
#include "servers/urls.hpp"

#include <boost/system/system_error.hpp>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

namespace conch::cli {

namespace {

volatile std::sig_atomic_t ended_by = 0;

void note_signal(int number) { ended_by = number; }

/// The other screen, without a cursor, and keys without Enter; all of it back at the end.
class full_screen {
 public:
  full_screen() {
    ::tcgetattr(STDIN_FILENO, &before_);
    termios mine = before_;
    mine.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &mine);
    cli::draw("\x1b[?1049h\x1b[?25l");
  }
  ~full_screen() {
    try {
      cli::draw("\x1b[?25h\x1b[?1049l");
    } catch (not_written const&) {  // the terminal has gone
    }
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  full_screen(full_screen const&) = delete;
  full_screen& operator=(full_screen const&) = delete;

  static void draw(std::vector<std::string> const& lines) {
    std::string text = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
    cli::draw(text + "\x1b[J");
  }

  static winsize size() {
    winsize now{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) != 0 || now.ws_row == 0 || now.ws_col == 0) {
      now.ws_row = 24;
      now.ws_col = 80;
    }
    return now;
  }

 private:
  termios before_{};
};

class watcher {
 public:
  watcher(arguments const& given, connection const& servers) : given_{given}, servers_{servers}, every_{given.every} {
    for (std::string const& url : servers.servers)
      scanners_.push_back(std::make_unique<lock_scanner>(servers, url, given.names));
  }

  int run() {
    bool const on_screen = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0 && !given_.json;
    struct sigaction note {};
    note.sa_handler = note_signal;  // no SA_RESTART: it ends the wait
    for (int const number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &note, nullptr);
    struct sigaction resized {};
    resized.sa_handler = [](int) {};
    ::sigaction(SIGWINCH, &resized, nullptr);
    if (on_screen) screen_.emplace();
    for (bool first = true; ended_by == 0 && !reader_has_gone(); first = false) {
      look(first);
      if (wait_for_q()) break;
    }
    screen_.reset();
    return ended_by == 0 ? exit_code::done : exit_code::of_signal + ended_by;
  }

 private:
  /// Why some of the servers could not be asked.
  struct trouble {
    std::string words;
    int code = exit_code::unreachable;  // of the last

    void add(std::string const& more, int of_it) {
      words += (words.empty() ? "" : "; ") + more;
      code = of_it;
    }
  };

  void look(bool first) {
    watch_view::statuses all;
    trouble now;
    std::size_t answered = 0;
    for (auto const& scanner : scanners_) {
      std::string const url = conch::servers::without_login(scanner->url());
      try {
        for (auto& [name, status] : scanner->look())
          all.emplace_back(servers_.quorum ? url + ": " + name : name, std::move(status));
        ++answered;
      } catch (boost::system::system_error const& error) {
        std::string const words = error.code().message();
        now.add(words.find(url) == std::string::npos ? url + ": " + words : words, exit_code_of(error.code()));
      }
    }
    if (first && answered == 0) {
      screen_.reset();
      throw failure{now.code, now.words};
    }
    // What cannot be seen has not changed.
    if (now.words.empty() || servers_.quorum) changes_ = view_.look(std::move(all), clock::now());
    if (screen_) {
      show(now.words);
    } else {
      print_changes(now);
    }
  }

  void show(std::string const& words) const {
    winsize const size = full_screen::size();
    std::vector<std::string> lines = view_.screen(size.ws_row, size.ws_col, std::chrono::system_clock::now());
    if (!words.empty()) lines.front() = padded(conch::readable(words, std::string::npos), size.ws_col);
    full_screen::draw(lines);
  }

  void print_changes(trouble const& seen) {
    auto const now = std::chrono::system_clock::now();
    if (!seen.words.empty() && seen.words != shown_) say(given_, seen.words, seen.code);
    shown_ = seen.words;
    for (watch_view::change const& one : changes_) {
      if (given_.json) {
        boost::json::object o = as_json(one.name, one.now);
        o["at"] = in_utc(now);
        print(one_line(o));
      } else {
        std::string text = as_text(one.name, one.now, now);
        std::replace(text.begin(), text.end() - 1, '\n', ';');
        print(in_utc(now) + ' ' + text);
      }
    }
    changes_.clear();
  }

  /// True if the user wants an end, or the reader of the output has gone.
  bool wait_for_q() const {
    time_point const until = clock::now() + every_;
    while (ended_by == 0) {
      auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
      if (left <= 0) return false;
      // Only the end of the output is watched: whether its reader has gone.
      pollfd wait[2]{{STDOUT_FILENO, 0, 0}, {STDIN_FILENO, POLLIN, 0}};
      int const ready = ::poll(wait, screen_ ? 2 : 1, static_cast<int>(left));
      if (ready < 0 && errno == EINTR && ended_by == 0) return false;  // another size
      if (ready <= 0) continue;
      if (wait[0].revents != 0) return true;
      char pressed = 0;
      if (::read(STDIN_FILENO, &pressed, 1) <= 0 || pressed == 'q' || pressed == 'Q') return true;
    }
    return true;
  }

  arguments const& given_;
  connection const& servers_;
  duration const every_;
  std::vector<std::unique_ptr<lock_scanner>> scanners_;
  watch_view view_;
  std::vector<watch_view::change> changes_;
  std::string shown_;
  std::optional<full_screen> screen_;
};

}  // namespace

int watch(arguments const& given, connection const& servers) {
  watcher w{given, servers};
  return w.run();
}

}  // namespace conch::cli
