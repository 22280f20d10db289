#include "support/history/edn.hpp"

#include "support/history/holds.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::history {

namespace {

std::string quoted(std::string const& text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

/// One operation of the model: from when to when, and how it ends.
struct call {
  char const* what;
  char const* end;  // ":ok", ":fail" or ":info"
  interval when;
  operation const* of;
};

std::vector<call> calls_in(operations const& all) {
  std::vector<call> calls;
  std::string wrong;
  for (hold_record const& h : holds_in(all, wrong)) {
    bool const heard = h.acquire->how == outcome::granted;
    calls.push_back({":acquire", heard ? ":ok" : ":info", h.granted, h.acquire});
    // What nobody heard of ends when it likes.
    calls.push_back({":release", h.ended.to == never ? ":info" : ":ok", h.ended, h.acquire});
  }
  for (operation const& o : all) {
    bool const asks = o.what == action::acquire || o.what == action::attempt;
    if (asks && (o.how == outcome::busy || o.how == outcome::refused))
      calls.push_back({":acquire", ":fail", {o.invoked, o.completed}, &o});
  }
  return calls;
}

struct event {
  nanoseconds at;
  bool begins;
  std::size_t call;
};

/// What begins at the same moment as something ends overlaps it.
std::vector<event> events_of(std::vector<call> const& calls) {
  nanoseconds last = 0;
  for (call const& c : calls) last = std::max({last, c.when.from, c.when.to == never ? 0 : c.when.to});
  std::vector<event> events;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].when.from == never) continue;
    events.push_back({calls[i].when.from, true, i});
    events.push_back({calls[i].when.to == never ? last : calls[i].when.to, false, i});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](event const& a, event const& b) { return a.at != b.at ? a.at < b.at : a.begins && !b.begins; });
  return events;
}

}  // namespace

std::string to_edn(operations const& of_one_lock) {
  std::vector<call> const calls = calls_in(of_one_lock);
  std::vector<std::size_t> process(calls.size());
  // a process does one thing at a time; one that has not heard the end of it does nothing more
  std::set<std::size_t> idle;
  std::size_t processes = 0;
  std::string text;
  for (event const& e : events_of(calls)) {
    call const& c = calls[e.call];
    if (e.begins) {
      if (idle.empty()) idle.insert(processes++);
      process[e.call] = idle.extract(idle.begin()).value();
    } else if (std::string_view{c.end} != ":info") {
      idle.insert(process[e.call]);
    }
    bool const is_grant = !e.begins && std::string_view{c.what} == ":acquire" && std::string_view{c.end} == ":ok";
    text += "{:process " + std::to_string(process[e.call]) + ", :type " + (e.begins ? ":invoke" : c.end) + ", :f " +
            c.what + ", :value " + (is_grant ? std::to_string(c.of->fence) : "nil") + ", :time " +
            std::to_string(e.at) + ", :lock " + quoted(c.of->lock) + ", :client " + quoted(c.of->process) + "}\n";
  }
  return text;
}

}  // namespace conch::history
