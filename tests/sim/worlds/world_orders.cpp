// Orders that come through a client's engine, as the server carries them out.
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/words.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <set>

namespace conch::sim {

namespace {

/// Read here once more, number by number: the code that is simulated may read it wrongly.
bool is_report(engine::lock_report const& r, std::vector<std::int64_t> const& n) {
  std::size_t const before_requests = 6 + 9 * r.owners.size();
  if (n.size() < before_requests) return false;
  std::vector<std::int64_t> asked_at(r.owners.size()), asker(r.owners.size());
  std::size_t at = before_requests;
  for (; at + 6 <= n.size() && n[at] != 0; at += 6) {
    auto const owner = static_cast<std::size_t>(n[at] - 1);
    if (owner >= r.owners.size()) return false;
    asker[owner] = n[at + 1];
    asked_at[owner] = n[at + 5];
  }
  constexpr std::size_t of_waiter = 7;
  if (n.size() - at != of_waiter * r.waiters.size()) return false;
  for (engine::lock_report::waiter const& w : r.waiters) {
    bool const is_it = n[at] == 0 && n[at + 1] == w.client[0] && n[at + 5] == w.since_us && n[at + 6] == w.permits;
    if (!is_it) return false;
    at += of_waiter;
  }
  bool same = static_cast<std::int64_t>(r.waiting) == n[1] && r.held == n[2] && r.taken == n[3] && r.limit == n[4] &&
              static_cast<std::int64_t>(r.kind) == n[5];
  for (std::size_t i = 0; i < r.owners.size(); ++i) {
    auto const& o = r.owners[i];
    std::int64_t const* const told = n.data() + 6 + 9 * i;
    for (std::size_t word = 0; word < 4; ++word) same = same && o.client[word] == told[word];
    same = same && o.fence == told[4] && o.left_ms == told[5] && o.permits == told[6] && o.segment == told[7] &&
           o.confirmed == (told[8] != 0);
    same = same && o.asked_us == asked_at[i] && o.asked_by[0] == asker[i];
  }
  return same;
}

/// One script asks the first hundred by their fences, and of more than a thousand none.
observer::owner_fences asked_of(observer::owner_fences const& owners) {
  constexpr std::size_t most = 100, most_known = 1000;
  if (owners.size() > most_known) return {};
  std::vector<std::pair<std::int64_t, std::string>> in_order;
  for (auto const& [id, fence] : owners) in_order.emplace_back(fence, id);
  std::sort(in_order.begin(), in_order.end());
  observer::owner_fences asked;
  for (auto const& [fence, id] : in_order) {
    if (asked.size() < most) asked.emplace(id, fence);
  }
  return asked;
}

}  // namespace

bool world::is_order(std::string_view script) {
  return script == "force" || script == "inspect" || script == "permit_limit" || script == "request" ||
         script == "watch";
}

/// Before it is carried out: the owners that it will concern. A replica only reports what it knows.
world::order_in_hand world::take_order(std::string_view script, std::span<std::string_view const> argv,
                                       bool at_master) {
  order_in_hand o{.script = std::string{script}, .name = 0, .number = 0, .owners = {}, .at_master = at_master};
  while (o.name < plan_.names && key_of(o.name) != argv[3]) ++o.name;
  if (script == "inspect" || script == "watch" || o.name == plan_.names || !at_master) return o;
  std::span const words = argv.subspan(3 + static_cast<std::size_t>(number(argv[2])));
  if (script == "request") {
    bool const means_all = words[0] == "all";
    o.number = means_all ? 0 : number(words[0]);
    o.owners = observer_->owners_of(o.name);
    if (!means_all) std::erase_if(o.owners, [&](auto const& owner) { return owner.second != o.number; });
    return o;
  }
  bool const means_all = script == "force" && words[2] == "all";
  o.number = means_all ? 0 : number(words[2]);
  if (script == "permit_limit") {
    if (words.size() > 3) o.by = number(words[3]);
    o.if_unset = words.size() > 4 && words[4] == "1";
    o.set_before = observer_->limit_set_of(o.name);
  }
  if (script == "force") {
    o.owners = observer_->owners_of(o.name);
    if (!means_all) std::erase_if(o.owners, [&](auto const& owner) { return owner.second != o.number; });
    for (std::string_view const word : words.subspan(3)) o.goes_on_from.push_back(number(word));
    // Owners that were granted it since it began are not meant.
    if (!o.goes_on_from.empty())
      std::erase_if(o.owners, [&](auto const& owner) { return owner.second > o.goes_on_from.front(); });
    if (!o.owners.empty()) observer_->lock_tampered(o.name);
  }
  return o;
}

void world::order_carried_out(order_in_hand const& o, link const& by, value const& reply,
                              std::vector<redis_model::pushed> const& pushes) {
  if (reply.is_error()) {
    if (reply.error_code() == "NOSCRIPT") return;
    if (o.at_master) observer_->refused();
    if (o.script == "request") {
      observer_->requested(o.owners, false);
      return;
    }
    if (o.at_master && o.script == "permit_limit") observer_->limit_set(o.name, o.number, false, false);
    observer_->ordered(o.name);
    return;
  }
  std::vector<std::int64_t> numbers;
  for (value const& item : reply.items) numbers.push_back(item.integer);
  std::int64_t const flags = numbers.size() > 2 ? numbers[2] : 0;
  auto const& c = *clients_[static_cast<std::size_t>(by.client)];
  // The last answer that the client gets counts them all. On a new connection it begins with the first owner again,
  // whatever became of the script before: any answer may have been the last one that it received.
  std::set<std::int64_t> before;  // several orders at a time may say the same
  for (saying const& one : said_) {
    bool const same = one.client == c.id() && one.script == o.script && one.name == o.name && one.numbers.size() == 7;
    if (same && !o.goes_on_from.empty() && one.numbers[5] == o.goes_on_from[0] &&
        (o.goes_on_from[1] == 0 || one.numbers[6] == o.goes_on_from[1]))
      before.insert(one.numbers[0]);
  }
  if (before.empty()) before.insert(0);
  for (std::int64_t const taken : before) {
    said_.push_back({c.id(), o.script, o.name, numbers});
    if (taken != 0) said_.back().numbers[0] += taken;
  }
  while (said_.size() > 1000) said_.pop_front();  // one client may ask about all its locks at once
  if (o.script == "watch" && o.name != plan_.names) observer_->watched(o.name, c, numbers);
  if (o.script == "inspect" || o.script == "watch" || o.name == plan_.names || !o.at_master) return;
  if (o.script == "request") {
    bool const of_another_kind = plan_.has(fault_plan::kind::clobber_lock, o.name) && o.owners.empty();
    observer::owner_fences const asked = asked_of(o.owners);
    if (!of_another_kind && (numbers.empty() || numbers[0] != std::ssize(asked)))
      throw violation{11, "the number of owners that are asked to let go differs from the answer"};
    observer_->requested(asked, true);
    return;
  }
  std::vector<std::string> pushed;
  for (auto const& p : pushes) {
    if (!p.message.items.empty()) pushed.push_back(p.message.items.back().text);
  }
  observer_->ordered(o.name);
  constexpr std::int64_t more_to_take = 2, more_to_pass_on_after_force = 4, more_to_pass_on_after_limit = 2;
  if (o.script == "force") {
    observer::owner_fences taken = o.owners;
    if ((flags & more_to_take) != 0) {
      auto const still = observer_->owners_of(o.name);
      std::erase_if(taken, [&](auto const& owner) { return still.contains(owner.first); });
    }
    observer_->forced(o.name, taken, pushed, (flags & (more_to_take | more_to_pass_on_after_force)) != 0);
  }
  if (o.script == "permit_limit") {
    std::int64_t const limit = numbers.size() > 3 ? numbers[3] : o.number;
    std::int64_t const changed = o.if_unset  ? o.set_before
                                 : o.by != 0 ? std::max<std::int64_t>(o.set_before + o.by, 1)
                                             : o.number;
    if (o.set_before != 0 && limit != changed) {
      throw violation{8, "the limit of lock " + std::to_string(o.name) + " is " + std::to_string(limit) + " and not " +
                             std::to_string(changed)};
    }
    observer_->limit_set(o.name, limit, true, (flags & more_to_pass_on_after_limit) != 0);
  }
}

bool world::was_said(std::string_view client, std::string_view script, int name,
                     engine::admin_result const& result) const {
  return std::any_of(said_.begin(), said_.end(), [&](saying const& s) {
    if (s.client != client || s.script != script || s.name != name) return false;
    if (result.status) return is_report(*result.status, s.numbers);
    bool const goes_on = s.numbers.size() == 7;
    bool const same_limit = s.numbers.size() != 4 || s.numbers[3] == result.limit;
    return !goes_on && !s.numbers.empty() && s.numbers[0] == result.count && same_limit;
  });
}

// -------------------------------------------------------------------------------------- something else under the same
// name

/// An operator writes something else, or another client uses the name for a lock of another kind: over what is there,
/// or if it is free.
void world::clobber(fault_plan const& f) {
  std::string const key = key_of(f.name);
  int const how = f.variant % 3;
  if (how != 2) {
    observer_->lock_tampered(f.name);  // its owner,
    admin({"DEL", key});
    observer_->lock_tampered(f.name);  // and that nothing of it is there
  }
  if (how != 0) {
    if (!another_kind_takes(f, key)) return;
  } else if (plan_.permits == engine::permit_kind::none) {
    admin({"HSET", key, "what", "else"});
  } else {
    admin({"SET", key, "something else"});
  }
  observer_->lock_tampered(f.name);
  after(f.length + millisecond, [this, key, name = f.name] {
    admin({"DEL", key});
    observer_->lock_tampered(name);
    observer_->trouble(now_);
  });
}

bool world::another_kind_takes(fault_plan const& f, std::string const& key) {
  if (nodes_[master()].down) return false;
  set_clock();
  std::string const queue = key + ":q", fence = key + ":f", lease = std::to_string(f.length / millisecond + 2);
  std::string const another = "other." + std::to_string(now_);
  auto const was = server().peek(key);
  bool const a_mutex = plan_.permits != engine::permit_kind::none;
  auto const script = mutated_source(a_mutex ? "acquire" : "permit_acquire");
  std::vector<std::string_view> argv{"EVAL", script, "3",   key,     queue, fence, another,
                                     "try",  lease,  "100", "30000", "0",   "0"};
  if (!a_mutex) argv.insert(argv.end(), {"r", "1000", "1", "-", "0"});
  auto const id = server().connect("10.0.9.9:4");
  value const reply = server().execute(id, argv);
  server().disconnect(id);
  if (trace_.on) say("server: a lock of another kind -> " + describe(reply));
  distribute(master(), server().take_pushes());
  replicate(master());
  bool const taken = !reply.is_error() && (reply.items.empty() || reply.items[0].integer == 1);
  bool const there = was.is(a_mutex ? value::kind::map : value::kind::bulk);
  if (there && taken) throw violation{1, "a lock of another kind was granted over lock " + std::to_string(f.name)};
  if (there && !(server().peek(key) == was))
    throw violation{7, "a lock of another kind changed lock " + std::to_string(f.name)};
  return taken;
}

// ------------------------------------------------------------------------------------------ a user that may not, a
// slow server

/// The user may not do what the protocol needs, for a while; its connection ends, as when its rights are changed.
void world::deny(fault_plan const& f, link_ptr const& l) {
  static std::vector<std::string> const what[] = {{"subscribe"}, {"publish"}, {"eval", "evalsha"}};
  auto const& commands = what[static_cast<std::size_t>(f.variant) % std::size(what)];
  for (std::string const& one : commands) {
    for (node& n : nodes_) n.model.deny(one);
  }
  observer_->denied(now_ + f.length + millisecond);
  if (l != nullptr) close_server_end(l, true);
  after(f.length + millisecond, [this, &commands] {
    for (std::string const& one : commands) {
      for (node& n : nodes_) n.model.allow(one);
    }
  });
}

void world::refuse_greetings(fault_plan const& f, link_ptr const& l) {
  static constexpr std::string_view errors[] = {
      "NOPERM this user has no permissions to run the 'hello' command",
      "WRONGPASS invalid username-password pair or user is disabled.",
      "LOADING Redis is loading the dataset in memory",
      "ERR max number of clients reached",
  };
  for (node& n : nodes_)
    n.model.inject({"hello", std::string{errors[static_cast<std::size_t>(f.variant) % std::size(errors)]}, 0,
                    redis_model::always, redis_model::where::client});
  observer_->denied(now_ + f.length + millisecond);
  if (l != nullptr) close_server_end(l, true);
  after(f.length + millisecond, [this] {
    for (node& n : nodes_) n.model.clear_faults();
  });
}

/// It answers everything, late.
void world::slow_down(fault_plan const& f) {
  slow_until_ = now_ + f.length;
  slow_by_ = f.length2;
}

}  // namespace conch::sim
