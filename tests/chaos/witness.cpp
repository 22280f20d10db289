#include "chaos/witness.hpp"

#include <charconv>
#include <sstream>
#include <stdexcept>

namespace conch::test {

namespace {

// Fences are compared as texts of 19 digits: Lua's numbers lose digits above 2^53.
constexpr std::string_view step_script = R"(
local place, what, who, fence, now = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local r = redis.call('HMGET', place, 'fence', 'inside', 'since')
local last, inside, since = r[1] or '', r[2] or '', r[3] or '0'
if fence < last then
  redis.call('HINCRBY', 'counts', 'refused ' .. what, 1)
  return '0 ' .. last .. ' ' .. since
end
if what == 'enter' then
  if fence == last then return '2 the same fence was granted twice' end
  if inside ~= '' then
    redis.call('RPUSH', 'overlaps', inside .. ' ' .. who .. ' ' .. last .. ' ' .. fence)
    redis.call('HINCRBY', 'counts', 'overlaps', 1)
  end
  redis.call('HSET', place, 'fence', fence, 'inside', who, 'since', now)
  redis.call('HINCRBY', 'counts', 'entered', 1)
elseif fence ~= last or inside ~= who then
  return '2 ' .. what .. ' without entering'
elseif what == 'write' then
  redis.call('HINCRBY', place, 'value', 1)
  redis.call('HINCRBY', 'counts', 'writes', 1)
else
  redis.call('HSET', place, 'inside', '')
end
return '1')";

constexpr std::string_view longest_script = R"(
if tonumber(ARGV[2]) > tonumber(redis.call('HGET', 'counts', ARGV[1]) or -1) then
  redis.call('HSET', 'counts', ARGV[1], ARGV[2])
end
return 1)";

std::string digits(std::int64_t number) {
  std::string const text = std::to_string(number);
  return std::string(text.size() < 19 ? 19 - text.size() : 0, '0') + text;
}

/// "[a, b]" of redis_probe, for texts without commas.
std::vector<std::string> elements(std::string const& text) {
  std::vector<std::string> all;
  if (text.size() < 2) return all;
  std::istringstream in{text.substr(1, text.size() - 2)};
  for (std::string one; std::getline(in, one, ',');) {
    if (one.starts_with(' ')) one.erase(0, 1);
    all.push_back(one);
  }
  return all;
}

}  // namespace

witness::witness(std::string const& url) : probe_{url, std::chrono::seconds{30}} {}

witness::answer witness::step(char const* what, std::string const& lock, std::string const& who, std::int64_t fence,
                              nanoseconds_of_boot t) {
  std::string const place = "place:" + lock;
  std::string const reply =
      probe_.command({"EVAL", step_script, "1", place, what, who, digits(fence), std::to_string(t)});
  if (reply == "1") return answer::accepted;
  if (reply.starts_with("0 ")) {
    std::istringstream in{reply.substr(2)};
    in >> seen_ >> seen_at_;
    return answer::refused;
  }
  complain(who + " with fence " + std::to_string(fence) + " at '" + lock + "': " + reply);
  return answer::wrong;
}

witness::answer witness::enter(std::string const& lock, std::string const& who, std::int64_t fence,
                               nanoseconds_of_boot now) {
  return step("enter", lock, who, fence, now);
}

witness::answer witness::write(std::string const& lock, std::string const& who, std::int64_t fence) {
  return step("write", lock, who, fence, 0);
}

witness::answer witness::leave(std::string const& lock, std::string const& who, std::int64_t fence) {
  return step("leave", lock, who, fence, 0);
}

void witness::report(refusal const& r) {
  std::ostringstream line;
  line << r.who << ' ' << r.lock << ' ' << r.step << ' ' << r.fence << ' ' << r.seen << ' ' << r.granted << ' '
       << r.valid_to << ' ' << r.other;
  probe_.command({"RPUSH", "refusals", line.str()});
}

void witness::count(std::string_view what, std::int64_t by) {
  probe_.command({"HINCRBY", "counts", what, std::to_string(by)});
}

void witness::longest(std::string_view what, std::int64_t value) {
  probe_.command({"EVAL", longest_script, "0", what, std::to_string(value)});
}

void witness::progress(std::string const& who) { probe_.command({"HINCRBY", "progress", who, "1"}); }

void witness::complain(std::string const& what) { probe_.command({"RPUSH", "complaints", what}); }

void witness::visited(visit const& v) {
  std::ostringstream line;
  line << v.who << ' ' << v.lock << ' ' << v.fence << ' ' << v.granted << ' ' << v.ended << ' ' << v.weight << ' '
       << v.limit << ' ' << v.owner;
  probe_.command({"RPUSH", "visits", line.str()});
}

void witness::arrived(arrival const& a) {
  std::ostringstream line;
  line << a.worker << ' ' << a.port << ' ' << a.at;
  probe_.command({"RPUSH", "arrivals", line.str()});
}

void witness::told(history::operation const& o) {
  std::ostringstream line;
  line << static_cast<int>(o.what) << ' ' << static_cast<int>(o.how) << ' ' << o.lock << ' ' << o.process << ' '
       << o.hold << ' ' << o.invoked << ' ' << o.completed << ' ' << o.fence << ' ' << o.weight << ' ' << o.deadline;
  probe_.command({"RPUSH", "operations", line.str()});
}

history::operations witness::take_operations() {
  history::operations all;
  for (std::string const& line : take_list("operations")) {
    history::operation o;
    int what = 0, how = 0;
    std::istringstream in{line};
    in >> what >> how >> o.lock >> o.process >> o.hold >> o.invoked >> o.completed >> o.fence >> o.weight >> o.deadline;
    if (!in) throw std::runtime_error("the recorder cannot read '" + line + "'");
    o.what = static_cast<history::action>(what);
    o.how = static_cast<history::outcome>(how);
    all.push_back(o);
  }
  return all;
}

std::vector<std::string> witness::take_list(std::string const& key) {
  std::vector<std::string> all;
  while (true) {
    std::string one = probe_.command({"LPOP", key});
    if (one == "(nil)") return all;
    all.push_back(std::move(one));
  }
}

std::vector<visit> witness::take_visits() {
  std::vector<visit> all;
  for (std::string const& line : take_list("visits")) {
    visit v;
    std::istringstream in{line};
    in >> v.who >> v.lock >> v.fence >> v.granted >> v.ended >> v.weight >> v.limit >> v.owner;
    if (!in) throw std::runtime_error("the recorder cannot read '" + line + "'");
    all.push_back(v);
  }
  return all;
}

std::vector<arrival> witness::take_arrivals() {
  std::vector<arrival> all;
  for (std::string const& line : take_list("arrivals")) {
    arrival a;
    std::istringstream in{line};
    in >> a.worker >> a.port >> a.at;
    if (!in) throw std::runtime_error("the recorder cannot read '" + line + "'");
    all.push_back(a);
  }
  return all;
}

std::vector<refusal> witness::take_refusals() {
  std::vector<refusal> all;
  for (std::string const& line : take_list("refusals")) {
    refusal r;
    std::istringstream in{line};
    in >> r.who >> r.lock >> r.step >> r.fence >> r.seen >> r.granted >> r.valid_to >> r.other;
    if (!in) throw std::runtime_error("the recorder cannot read '" + line + "'");
    all.push_back(r);
  }
  return all;
}

std::vector<overlap> witness::overlaps() {
  std::vector<overlap> all;
  for (std::string const& line : elements(probe_.command({"LRANGE", "overlaps", "0", "-1"}))) {
    overlap o;
    std::istringstream in{line};
    in >> o.inside >> o.entered >> o.inside_fence >> o.entered_fence;
    if (!in) throw std::runtime_error("the recorder cannot read '" + line + "'");
    all.push_back(o);
  }
  return all;
}

std::vector<std::string> witness::take_complaints() { return take_list("complaints"); }

std::map<std::string, std::int64_t> witness::numbers(std::string const& key) {
  auto const all = elements(probe_.command({"HGETALL", key}));
  std::map<std::string, std::int64_t> result;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) result[all[i]] = std::stoll(all[i + 1]);
  return result;
}

std::map<std::string, std::int64_t> witness::counts() { return numbers("counts"); }

std::map<std::string, std::int64_t> witness::all_progress() { return numbers("progress"); }

}  // namespace conch::test
