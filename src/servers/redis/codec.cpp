// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/codec.hpp"

#include "resp/encoder.hpp"
#include "servers/redis/faults.hpp"
#include "servers/redis/scripts.hpp"
#include "servers/redis/topology/slots.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

namespace conch::redis {

namespace {

using engine::grant_id;
using resp::command_writer;
using resp::put;

/// The keys of one lock, as arguments. Most names are written as they are.
class keys {
 public:
  keys(sender const& who, std::string_view name) : prefix_{who.prefix}, name_{name} {
    if (std::none_of(name.begin(), name.end(), [](char c) { return c == '%' || c == '}'; })) return;
    escaped_ = escape_name(name);
    name_ = escaped_;
  }
  keys(keys const&) = delete;
  keys& operator=(keys const&) = delete;

  void lock(command_writer& w) const { write(w, "}"); }
  void queue(command_writer& w) const { write(w, "}:q"); }
  void fence(command_writer& w) const { write(w, "}:f"); }
  void ends(command_writer& w) const { write(w, "}:e"); }
  void requests(command_writer& w) const { write(w, "}:r"); }
  void watchers(command_writer& w) const { write(w, "}:w"); }
  void alert(command_writer& w) const { write(w, "}:a"); }
  void introduction(command_writer& w) const { write(w, "}:i"); }

  void all(command_writer& w) const {
    lock(w);
    queue(w);
    fence(w);
  }

 private:
  void write(command_writer& w, std::string_view tail) const {
    std::size_t const size = prefix_.size() + 1 + name_.size() + tail.size();
    if (size > command_writer::longest_in_place) {
      w.arg({prefix_, "{", name_, tail});
      return;
    }
    char* const rest = put(put(put(w.begin(size), prefix_), "{"), name_);
    put(rest, tail);
    w.end();
  }

  std::string_view prefix_;
  std::string_view name_;
  std::string escaped_;
};

/// CLIENT.N
void write_id(command_writer& w, std::string_view client, grant_id id) {
  std::size_t const size = client.size() + 1 + engine::text_size(id);
  if (size > command_writer::longest_in_place) {
    w.arg({client, ".", engine::to_text(id)});
    return;
  }
  char* const n = put(put(w.begin(size), client), ".");
  engine::write_grant_id(n, id);
  w.end();
}

std::string_view letter(engine::permit const& permit) { return {reinterpret_cast<char const*>(&permit.kind), 1}; }

std::int64_t count(std::chrono::milliseconds d) { return d.count(); }

/// Are its times the usual ones, and is it not patient?
template <class Command>
bool is_usual(Command const& c) {
  return c.lease == usual_lease && c.claim == usual_claim && c.retention == usual_retention && !c.patient;
}

/// The call of a script that is seldom called, or has an argument for each lock.
void write_script(command_writer& w, script const& s, bool with_source, std::size_t key_count) {
  w.arg(with_source ? std::string_view{"EVAL"} : std::string_view{"EVALSHA"});
  w.arg(with_source ? s.source : s.sha1);
  w.arg(key_count);
}

/// The call of a script of every acquire and release, up to its keys: with this many keys and other arguments.
class script_call {
 public:
  script_call(std::string_view name, std::size_t key_count, std::size_t others)
      : script_{find_script(name)},
        key_count_{std::to_string(key_count)},
        argc_{3 + key_count + others},
        by_sha1_{argc_, {"EVALSHA", script_.sha1, key_count_}} {}

  command_writer begin(std::string& out, bool with_source) const {
    if (!with_source) return {out, by_sha1_};
    return {out, resp::command_beginning{argc_, {"EVAL", script_.source, key_count_}}};
  }

 private:
  script const& script_;
  std::string key_count_;
  std::size_t argc_;
  resp::command_beginning by_sha1_;
};

struct encoder {
  sender const& who;
  std::string& out;

  bool in_cluster() const noexcept { return !who.node.empty(); }

  /// The channels of the lock's slot, for lua/lib/channel.lua.
  void shard(command_writer& w, std::string_view name) const {
    w.arg({"{", std::to_string(tag_of_slot(slot_of_lock(name))), "}:%s:", who.node});
  }

  void adopt(protocol::acquire_command const& c) const {
    static script const& of_mutex = find_script("adopt");
    static script const& of_permit = find_script("permit_adopt");
    bool const permit = c.permit != nullptr;
    command_writer w{out, permit ? 3u + 4 + 6 : in_cluster() ? 3u + 3 + 6 : 3u + 3 + 5};
    write_script(w, permit ? of_permit : of_mutex, c.with_source, permit ? 4 : 3);
    keys const k{who, c.name};
    k.all(w);
    if (permit) k.ends(w);
    write_id(w, who.client, c.id);
    w.arg(count(c.lease)).arg(count(c.retention)).arg(c.not_after_us).arg(c.origin);
    if (permit) w.arg(letter(*c.permit));
    else if (in_cluster()) shard(w, c.name);
  }

  void operator()(protocol::acquire_command const& c) const {
    if (!c.origin.empty()) {
      adopt(c);
      return;
    }
    static script_call const of_usual_mutex{"acquire", 3, 1}, of_mutex_in_short{"acquire", 3, 5};
    static script_call const of_mutex{"acquire", 3, 7};
    static script_call const of_vote{"acquire", 3, 8};
    static script_call const of_permit{"permit_acquire", 4, 12};
    static script_call const of_mutex_at_node{"acquire", 3, 9}, of_permit_at_node{"permit_acquire", 4, 13};
    bool const vote = c.proposal != 0,
               in_short = !vote && c.permit == nullptr && !in_cluster() && c.ticket == 0 && c.not_after_us == 0;
    bool const usual = in_short && c.wait && is_usual(c);
    script_call const& at_node = c.permit != nullptr ? of_permit_at_node : of_mutex_at_node;
    script_call const& alone = c.permit != nullptr ? of_permit
                               : vote              ? of_vote
                               : usual             ? of_usual_mutex
                               : in_short          ? of_mutex_in_short
                                                   : of_mutex;
    script_call const& call = in_cluster() ? at_node : alone;
    command_writer w = call.begin(out, c.with_source);
    keys const k{who, c.name};
    k.all(w);
    if (c.permit != nullptr) k.ends(w);
    write_id(w, who.client, c.id);
    if (usual) return;
    w.arg({c.wait ? "wait" : "try", c.patient ? "!" : ""});
    w.arg(count(c.lease)).arg(count(c.claim)).arg(count(c.retention));
    if (in_short) return;
    w.arg(c.ticket).arg(c.not_after_us);
    if (vote) w.arg(c.proposal);
    if (c.permit != nullptr) {
      w.arg(letter(*c.permit)).arg(c.permit->limit).arg(c.permit->weight).arg(c.permit->detail).arg(c.permit->start);
    } else if (in_cluster()) {
      w.arg("");
    }
    if (in_cluster()) shard(w, c.name);
  }

  void operator()(protocol::acquire_all_command const& c) const {
    static script const& gathered = find_script("gathered");
    command_writer w{out, 3 + 7 * c.items.size() + 7};
    write_script(w, gathered, c.with_source, 3 * c.items.size());
    for (auto const key : {&keys::lock, &keys::queue, &keys::fence}) {
      for (protocol::attempt const& item : c.items) (keys{who, item.name}.*key)(w);
    }
    // A try passes nothing on.
    w.arg(c.items.size()).arg("next").arg("").arg("").arg(count(c.retention)).arg("0").arg("");
    for (protocol::attempt const& item : c.items) {
      write_id(w, who.client, item.id);
      w.arg(0).arg(c.not_after_us).arg(count(item.lease));
    }
  }

  void release_later(protocol::release_command const& c) const {
    static script const& later = find_script("release_later");
    BOOST_ASSERT_MSG(c.permit == nullptr && c.new_id == 0 && !c.keep, "a release within the interval of a mutex");
    command_writer w{out, in_cluster() ? 3u + 4 + 6 : 3u + 4 + 5};
    write_script(w, later, c.with_source, 4);
    keys const k{who, c.name};
    k.all(w);
    k.watchers(w);
    write_id(w, who.client, c.id);
    w.arg(count(c.ends_in)).arg(count(c.claim)).arg(count(c.retention));
    if (c.floor != 0) w.arg(c.floor);
    else w.arg("");
    if (in_cluster()) shard(w, c.name);
  }

  void operator()(protocol::release_command const& c) const {
    if (c.ends_in.count() != 0) return release_later(c);
    static script_call const of_usual_mutex{"release", 3, 1}, of_mutex_in_short{"release", 3, 5};
    static script_call const of_mutex{"release", 3, 6};
    static script_call const of_vote{"release", 3, 8};
    static script_call const of_permit{"permit_release", 4, 10};
    static script_call const of_mutex_at_node{"release", 3, 9}, of_permit_at_node{"permit_release", 4, 11};
    bool const vote = c.floor != 0, in_short = !vote && c.permit == nullptr && !in_cluster() && c.new_id == 0;
    BOOST_ASSERT_MSG(c.permit == nullptr || c.new_id == 0, "the release script of permits cannot queue again");
    bool const usual = in_short && !c.keep && is_usual(c);
    script_call const& at_node = c.permit != nullptr ? of_permit_at_node : of_mutex_at_node;
    script_call const& alone = c.permit != nullptr ? of_permit
                               : vote              ? of_vote
                               : usual             ? of_usual_mutex
                               : in_short          ? of_mutex_in_short
                                                   : of_mutex;
    script_call const& call = in_cluster() ? at_node : alone;
    command_writer w = call.begin(out, c.with_source);
    keys const k{who, c.name};
    k.all(w);
    if (c.permit != nullptr) k.ends(w);
    write_id(w, who.client, c.id);
    if (usual) return;
    w.arg({c.keep ? "1" : "0", c.patient ? "!" : ""});
    w.arg(count(c.lease)).arg(count(c.claim)).arg(count(c.retention));
    if (c.permit != nullptr) {
      w.arg(letter(*c.permit)).arg(c.permit->limit).arg(c.permit->weight).arg(c.permit->detail).arg(c.rest);
      if (in_cluster()) shard(w, c.name);
      return;
    }
    if (in_short) return;
    if (c.new_id != 0) {
      write_id(w, who.client, c.new_id);
    } else {
      w.arg("");
    }
    if (vote) w.arg(c.floor).arg(c.next_fence_floor);
    if (!in_cluster()) return;
    w.arg("").arg("");
    shard(w, c.name);
  }

  void operator()(protocol::gathering const& all, bool with_source) const {
    static script const& gathered = find_script("gathered");
    bool const votes = all.common().votes;
    std::size_t const acquires = all.acquires(), releases = all.members().size() - acquires;
    bool const ids_alone = !votes && std::ranges::all_of(all.members(), [](auto const& m) {
      return m.releases ? m.new_id == 0 : m.ticket == 0 && m.not_after_us == 0;
    });
    std::size_t const for_acquire = ids_alone ? 1 : votes ? 4 : 3, for_release = ids_alone ? 1 : votes ? 4 : 2;
    command_writer w{out, 3 + 3 * (acquires + releases) + 7 + for_acquire * acquires + for_release * releases};
    write_script(w, gathered, with_source, 3 * (acquires + releases));
    for (bool const release : {false, true}) {
      for (auto const key : {&keys::lock, &keys::queue, &keys::fence}) {
        for (auto const& m : all.members()) {
          if (m.releases == release) (keys{who, m.name}.*key)(w);
        }
      }
    }
    w.arg(acquires).arg(all.waits() ? "wait" : "try");
    w.arg(count(all.common().lease))
        .arg(count(all.common().claim))
        .arg(count(all.common().retention))
        .arg(votes ? "1" : "0");
    if (in_cluster()) shard(w, all.members().front().name);
    else w.arg("");
    for (auto const& m : all.members()) {
      if (m.releases) continue;
      write_id(w, who.client, m.id);
      if (ids_alone) continue;
      w.arg(m.ticket).arg(m.not_after_us);
      if (votes) w.arg(m.proposal);
    }
    for (auto const& m : all.members()) {
      if (!m.releases) continue;
      write_id(w, who.client, m.id);
      if (ids_alone) continue;
      if (m.new_id != 0) write_id(w, who.client, m.new_id);
      else w.arg("");
      if (votes) w.arg(m.floor).arg(m.next_fence_floor);
    }
  }

  void operator()(protocol::renew_command const& c) const {
    static script const& renew = find_script("renew");
    static script const& permit_renew = find_script("permit_renew");
    bool const keep = c.retention.count() != 0;
    std::size_t const keys_for_each = !keep ? 1 : c.permits ? 4 : 3;
    command_writer w{out, 3 + (keys_for_each + 2) * c.items.size() + (keep ? 1 : 0) + (keep && in_cluster() ? 1 : 0)};
    write_script(w, c.permits ? permit_renew : renew, c.with_source, keys_for_each * c.items.size());
    auto const each = [&](void (keys::*key)(command_writer&) const) {
      for (protocol::renewal const& item : c.items) (keys{who, item.name}.*key)(w);
    };
    each(&keys::lock);
    if (keep) each(&keys::fence);
    if (keep && c.permits) each(&keys::ends);
    if (keep) each(&keys::queue);
    for (protocol::renewal const& item : c.items) {
      if (!item.fence) {
        write_id(w, who.client, item.id);
      } else {
        w.arg({who.client, ".", engine::to_text(item.id), " ", std::to_string(*item.fence)});
      }
      w.arg(count(item.lease));
    }
    if (keep) w.arg(count(c.retention));
    if (keep && in_cluster()) shard(w, c.items.front().name);  // all are of one slot
  }

  void operator()(protocol::confirm_command const& c) const {
    static script const& confirm = find_script("confirm");
    BOOST_ASSERT_MSG(!in_cluster(), "a vote at a node of a Cluster");
    command_writer w{out, 3 + 2 + 6 * c.items.size() + (c.keep_fences ? 1 : 0)};
    write_script(w, confirm, c.with_source, 3 * c.items.size());
    for (protocol::renewal const& item : c.items) {
      keys const k{who, item.name};
      k.lock(w);
      k.fence(w);
      k.queue(w);
    }
    w.arg(count(c.retention)).arg("");
    for (protocol::renewal const& item : c.items) {
      write_id(w, who.client, item.id);
      w.arg(count(item.lease)).arg(item.floor);
    }
    if (c.keep_fences) w.arg("keep");
  }

  void operator()(protocol::inspect_command const& c) const {
    static script const& inspect = find_script("inspect");
    keys const k{who, c.name};
    command_writer w{out, 3 + 3};
    write_script(w, inspect, c.with_source, 3);
    k.lock(w);
    k.queue(w);
    k.requests(w);
  }

  void operator()(protocol::force_command const& c) const {
    static script const& force = find_script("force");
    bool const goes_on = c.last.has_value();
    command_writer w{out, 3u + 4u + 3u + (in_cluster() ? 3u : goes_on ? 2u : 0u)};
    order(w, force, c, owners(c.fence));
    if (goes_on) w.arg(*c.last).arg(c.from_us);
    if (!in_cluster()) return;
    if (!goes_on) w.arg("").arg("");
    shard(w, c.name);
  }

  void operator()(protocol::limit_command const& c) const {
    static script const& limit = find_script("permit_limit");
    command_writer w{out, 3u + 4 + 3 + (in_cluster() ? 3u : c.changes() ? 2u : 0u)};
    order(w, limit, c, c.limit);
    if (c.changes()) w.arg(c.by).arg(c.if_unset ? "1" : "0");
    if (!in_cluster()) return;
    if (!c.changes()) w.arg("").arg("");
    shard(w, c.name);
  }

  /// The owners that an order means. A word for all of them: any number may be a requested fence.
  static std::string owners(std::optional<std::int64_t> const& fence) { return fence ? std::to_string(*fence) : "all"; }

  template <class Command, class Number>
  void order(command_writer& w, script const& s, Command const& c, Number const& number) const {
    write_script(w, s, c.with_source, 4);
    keys const k{who, c.name};
    k.all(w);
    k.ends(w);
    w.arg(count(c.claim)).arg(count(c.retention)).arg(number);
  }

  void operator()(protocol::request_command const& c) const {
    static script const& request = find_script("request");
    command_writer w{out, in_cluster() ? 3u + 2 + 3 : 3u + 2 + 2};
    write_script(w, request, c.with_source, 2);
    keys const k{who, c.name};
    k.lock(w);
    k.requests(w);
    w.arg(owners(c.fence)).arg(who.client);
    if (in_cluster()) shard(w, c.name);
  }

  void operator()(protocol::requested_command const& c) const {
    command_writer w{out, 3};
    w.arg("HEXISTS");
    keys{who, c.name}.requests(w);
    w.arg(c.fence);
  }

  void operator()(protocol::watch_command const& c) const {
    static script const& watch = find_script("watch");
    command_writer w{out, in_cluster() ? 3u + 3 + 3 : 3u + 3 + 2};
    write_script(w, watch, c.with_source, 3);
    keys const k{who, c.name};
    k.lock(w);
    k.alert(w);
    k.watchers(w);
    if (c.id != 0) {
      write_id(w, who.client, c.id);
    } else {
      w.arg("");
    }
    w.arg(count(c.lease));
    if (in_cluster()) shard(w, c.name);
  }

  void operator()(protocol::unwatch_command const& c) const {
    command_writer w{out, 3};
    w.arg("ZREM");
    keys{who, c.name}.watchers(w);
    write_id(w, who.client, c.id);
  }

  void operator()(protocol::introduce_command const& c) const {
    command_writer w{out, c.text.empty() ? 2u : 5u};
    w.arg(c.text.empty() ? std::string_view{"DEL"} : std::string_view{"SET"});
    keys{who, c.name}.introduction(w);
    if (!c.text.empty()) w.arg(c.text).arg("PX").arg(count(c.kept));
  }

  void operator()(protocol::identify_command const& c) const {
    command_writer w{out, 2};
    w.arg("GET");
    keys{who, c.name}.introduction(w);
  }

  void operator()(protocol::kill_command const& c) const {
    command_writer w{out, 6};
    w.arg("CLIENT").arg("KILL").arg("ID").arg(c.client_id).arg("ADDR").arg(c.address);
  }

  void operator()(protocol::subscribe_command) const {
    if (in_cluster()) resp::append_command(out, {"SSUBSCRIBE", channel_of(who, who.home)});
    else resp::append_command(out, {"SUBSCRIBE", channel_of(who)});
  }

  void operator()(protocol::prove_publish_command) const {
    if (in_cluster()) resp::append_command(out, {"SPUBLISH", channel_of(who, who.home), ""});
    else resp::append_command(out, {"PUBLISH", channel_of(who), ""});
  }

  void operator()(protocol::ping_command) const { resp::append_command(out, {"PING"}); }

  void operator()(protocol::asking_command) const { resp::append_command(out, {"ASKING"}); }

  void operator()(protocol::mark_command) const { resp::append_command(out, {"PUBLISH", channel_of(who) + ":w", ""}); }

  /// A time-out of 0 would be none.
  void operator()(protocol::wait_command const& c) const {
    command_writer w{out, 3};
    w.arg("WAIT").arg(c.replicas).arg(std::max<std::int64_t>(count(c.timeout), 1));
  }
};

bool read_number(std::string_view& text, std::int64_t& number) {
  auto const end = std::min(text.find(' '), text.size());
  auto const [stop, error] = std::from_chars(text.data(), text.data() + end, number);
  bool const whole = error == std::errc{} && stop == text.data() + end;
  text.remove_prefix(std::min(end + 1, text.size()));
  return whole;
}

/// The limit of a script's numbers. Greater ones are not exact in Lua, and sums of them could overflow here.
bool exact_in_lua(std::int64_t number) {
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  return number >= -limit && number <= limit;
}

/// A fence that is not a number, or too large for a token, comes from a key that another program has changed. It is
/// read as 0: the rest of the message counts.
void read_fence(std::string_view& text, std::int64_t& fence) {
  if (!read_number(text, fence) || fence <= 0 || fence >= protocol::fence_limit) fence = 0;
}

bool starts_as_key(std::string_view text, sender const& who) {
  return text.starts_with(who.prefix) && text.substr(who.prefix.size()).starts_with('{');
}

/// False: malformed.
bool read_key(std::string_view key, sender const& who, std::string& name) {
  std::size_t const before = who.prefix.size() + 1;
  if (!starts_as_key(key, who) || key.size() <= before + 1 || key.back() != '}') return false;
  name = unescape_name(key.substr(before, key.size() - before - 1));
  return true;
}

/// The KIND and SEGMENT of a permit, as one word. False: malformed.
bool read_permit(std::string_view& text, protocol::pushed_grant& grant) {
  auto const kind = static_cast<engine::permit_kind>(text.front());
  if (kind == engine::permit_kind::none || !engine::is_lock_kind(text.front())) return false;
  text.remove_prefix(1);
  std::int64_t segment = 0;
  if (!read_number(text, segment) || segment < 0 || segment > std::numeric_limits<std::uint32_t>::max()) return false;
  grant.kind = kind;
  grant.chosen = static_cast<std::uint32_t>(segment);
  return true;
}

/// CLIENT.N, as one word. False: malformed, or another client's.
bool read_id(std::string_view& text, std::string_view client, grant_id& id) {
  if (text.size() <= client.size() || text.substr(0, client.size()) != client || text[client.size()] != '.')
    return false;
  text.remove_prefix(client.size() + 1);
  return engine::read_grant_id(text, id);
}

/// "ID FENCE GRANTED CLAIM KEY", written by pass_on in lua/lib/lock.lua, or with a permit before KEY, by
/// lua/lib/permits.lua.
bool read_grant(std::string_view text, sender const& who, std::string& name, protocol::pushed_grant& grant) {
  std::int64_t claim = 0;
  if (!read_id(text, who.client, grant.id)) return false;
  read_fence(text, grant.fence);
  if (!read_number(text, grant.granted_us) || !read_number(text, claim)) return false;
  grant.kind = engine::permit_kind::none;
  grant.chosen = 0;
  if (!starts_as_key(text, who) && !text.empty() && !read_permit(text, grant)) return false;
  if (claim <= 0 || claim > engine::longest_lease_ms || !exact_in_lua(grant.granted_us)) return false;
  if (!read_key(text, who, name)) return false;
  grant.name = name;
  grant.claim = std::chrono::milliseconds{claim};
  return true;
}

/// "ID LEFT KEY", written by tell_end in lua/lib/told.lua after a "~".
bool read_end(std::string_view text, sender const& who, std::string& name, protocol::end_of_lease& end) {
  std::int64_t left = 0;
  if (!read_id(text, who.client, end.id) || !read_number(text, left) || left < 0 || left > engine::longest_lease_ms ||
      !read_key(text, who, name))
    return false;
  end.name = name;
  end.left = std::chrono::milliseconds{left};
  return true;
}

/// "ID KEY", written by lua/force.lua after a "!", by lua/request.lua after a "*", by reach in lua/lib/reach.lua after
/// a "?", and by lua/lib/freed.lua after a "=" or a "+".
template <class Push>
bool read_place(std::string_view text, sender const& who, std::string& name, Push& push) {
  if (!read_id(text, who.client, push.id) || !read_key(text, who, name)) return false;
  push.name = name;
  return true;
}

}  // namespace

std::string escape_name(std::string_view name) {
  std::string escaped;
  escaped.reserve(name.size() + 8);
  for (char const c : name) {
    if (c == '%') {
      escaped += "%25";
    } else if (c == '}') {
      escaped += "%7D";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string lock_key(sender const& who, std::string_view name) {
  return std::string{who.prefix} + '{' + escape_name(name) + '}';
}

std::string unescape_name(std::string_view escaped) {
  std::string name;
  name.reserve(escaped.size());
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped.substr(i, 3) == "%25") {
      name += '%';
      i += 2;
    } else if (escaped.substr(i, 3) == "%7D") {
      name += '}';
      i += 2;
    } else {
      name += escaped[i];
    }
  }
  return name;
}

std::string channel_of(sender const& who) { return std::string{who.prefix}.append(who.client); }

std::string channel_of(sender const& who, unsigned slot) {
  std::string channel{who.prefix};
  channel.append("{")
      .append(std::to_string(tag_of_slot(slot)))
      .append("}:")
      .append(who.client)
      .append(":")
      .append(who.node);
  return channel;
}

std::optional<unsigned> slot_of_channel(std::string_view channel, sender const& who) {
  if (who.node.empty() || !starts_as_key(channel, who)) return std::nullopt;
  channel.remove_prefix(who.prefix.size() + 1);
  std::size_t const end = channel.find('}');
  if (end == std::string_view::npos) return std::nullopt;
  unsigned const slot = slot_of_tag(channel.substr(0, end));
  bool const ours = channel_of(who, slot).compare(who.prefix.size() + 1, std::string::npos, channel) == 0;
  return ours ? std::optional{slot} : std::nullopt;
}

std::optional<unsigned> slot_to_subscribe(protocol::command const& c) {
  std::string_view name;
  if (auto const* const asks = std::get_if<protocol::acquire_command>(&c)) {
    name = asks->name;
  } else if (auto const* const gives_back = std::get_if<protocol::release_command>(&c);
             gives_back != nullptr && gives_back->new_id != 0) {
    name = gives_back->name;
  } else if (auto const* const listens = std::get_if<protocol::requested_command>(&c)) {
    name = listens->name;
  } else if (auto const* const waits = std::get_if<protocol::watch_command>(&c); waits != nullptr && waits->id != 0) {
    name = waits->name;
  } else if (auto const* const tries = std::get_if<protocol::acquire_all_command>(&c)) {
    name = tries->items.front().name;  // all are of one slot
  } else if (auto const* const renews = std::get_if<protocol::renew_command>(&c);
             renews != nullptr && !renews->asking) {
    name = renews->items.front().name;  // the same
  } else {
    return std::nullopt;
  }
  return slot_of_lock(name);
}

void encode(protocol::command const& c, sender const& who, std::string& out) { std::visit(encoder{who, out}, c); }

void encode(protocol::gathering const& all, sender const& who, bool with_source, std::string& out) {
  encoder{who, out}(all, with_source);
}

bool split(std::span<resp::node const> message, std::span<std::span<resp::node const>> answers) {
  if (message.front().what != resp::kind::array || message.front().count != answers.size()) return false;
  std::size_t position = 1;
  for (auto& one : answers) {
    std::size_t end = position + 1;
    while (end < message.size() && message[end].depth > 1) ++end;
    one = message.subspan(position, end - position);
    position = end;
  }
  return true;
}

protocol::answer to_answer(std::span<resp::node const> message, std::vector<std::int64_t>& numbers) {
  numbers.clear();
  resp::node const& first = message.front();
  switch (first.what) {
    case resp::kind::simple_error:
    case resp::kind::bulk_error: {
      auto const what = classify(first.text);
      return {what, first.text, {}, what == protocol::fault::access_denied};
    }
    case resp::kind::simple_string: return {};  // +OK, +PONG
    case resp::kind::bulk_string: return {.content = first.text};
    case resp::kind::null: return {.content = std::string_view{}};
    case resp::kind::integer:
      if (!exact_in_lua(first.integer)) return {protocol::fault::malformed, "a number that no script can answer", {}};
      numbers.push_back(first.integer);
      return {protocol::fault::none, {}, numbers};
    case resp::kind::array:
      for (resp::node const& n : message.subspan(1)) {
        if (n.what != resp::kind::integer)
          return {protocol::fault::malformed, "an array of something else than integers", {}};
        if (!exact_in_lua(n.integer)) return {protocol::fault::malformed, "a number that no script can answer", {}};
        numbers.push_back(n.integer);
      }
      return {protocol::fault::none, {}, numbers};
    default: return {protocol::fault::malformed, "a reply of a type that no command of ours has", {}};
  }
}

protocol::answer to_tries_answer(std::span<resp::node const> message, std::vector<std::int64_t>& numbers) {
  resp::node const& all = message.front();
  std::vector<std::span<resp::node const>> answers(all.what == resp::kind::array ? static_cast<std::size_t>(all.count)
                                                                                 : 0);
  if (answers.empty() || !split(message, answers)) return to_answer(message, numbers);
  std::vector<std::int64_t> told{0};
  for (auto const& one : answers) {
    protocol::answer const a = to_answer(one, numbers);
    if (a.what != protocol::fault::none) return a;
    // FENCE · 1 FENCE CLOCK · 2 LEFT CLOCK · 3 0 CLOCK, as lua/acquire.lua
    bool const short_form = numbers.size() == 1;
    if (!short_form && numbers.size() < 3) return {protocol::fault::malformed, "an answer that no acquire has", {}};
    told[0] = short_form ? numbers[0] + protocol::fence_epoch_us : numbers[2];
    if (!short_form && numbers[0] == 3) return {protocol::fault::none, {}, numbers};
    if (!short_form && numbers[0] != 1) break;
    told.push_back(short_form ? numbers[0] : numbers[1]);
  }
  numbers = std::move(told);
  return {protocol::fault::none, {}, numbers};
}

std::variant<protocol::push, notice> read_push(std::span<resp::node const> message, sender const& who,
                                               std::string& name) {
  if (message.size() < 2) return notice::malformed;
  std::string_view const what = message[1].text;
  if (what == "subscribe") return notice::subscribed;
  if (what == "ssubscribe") return notice::shard_subscribed;
  if (what == "sunsubscribe") return notice::shard_unsubscribed;
  if (what != (who.node.empty() ? "message" : "smessage") || message.size() != 4) return notice::other;
  if (who.node.empty() ? message[2].text != channel_of(who) : !slot_of_channel(message[2].text, who))
    return notice::other;
  std::string_view const text = message[3].text;
  if (text.empty()) return notice::other;  // from prove_publish_command: it shows that pushes arrive
  auto const of_place = [&](auto push) -> std::variant<protocol::push, notice> {
    if (read_place(text.substr(1), who, name, push)) return push;
    return notice::malformed;
  };
  switch (text.front()) {
    case '!': return of_place(protocol::revocation{});
    case '*': return of_place(protocol::request_to_let_go{});
    case '?': return of_place(protocol::missed_turn{});
    case '=': return of_place(protocol::end_of_hold{});
    case '+': return of_place(protocol::end_of_hold{.name = {}, .more = true});
    case '~':
      if (protocol::end_of_lease end; read_end(text.substr(1), who, name, end)) return end;
      return notice::malformed;
    default:
      if (protocol::pushed_grant grant; read_grant(text, who, name, grant)) return grant;
      return notice::malformed;
  }
}

}  // namespace conch::redis
