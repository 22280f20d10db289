// Other clients of the server: operators, tools that listen, and strangers that publish what no script did.
#include "protocol/wire.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/sim_client.hpp"
#include "sim/worlds/world.hpp"

#include <algorithm>
#include <iterator>

namespace conch::sim {

void world::watch_channels(redis_model& model) {
  std::string_view const words[] = {"PSUBSCRIBE", "conch:*"};
  (void)model.execute(model.connect("10.0.9.9:5"), words);
  (void)model.take_pushes();
}

// A stranger that knows no grant id changes nothing.
void world::intrude(int name) {
  if (nodes_[master()].down) return;
  set_clock();
  std::string const lock = key_of(name);
  std::string const queue = lock + ":q", fence = lock + ":f";
  auto const id = server().connect("10.0.9.9:2");
  std::string_view const release[] = {
      "EVAL", mutated_source("release"), "3", lock, queue, fence, "stranger.1", "0", "1000", "100", "2000", ""};
  observer_->before(release, nullptr);
  auto const freeing = observer_->about_to_free(release);
  value const first = server().execute(id, release);
  observer_->after(release, first);
  observer_->freed(freeing, first);
  std::string_view const renew[] = {"EVAL", mutated_source("renew"), "1", lock, "stranger.1", "100000"};
  observer_->before(renew, nullptr);
  value const second_reply = server().execute(id, renew);
  observer_->after(renew, second_reply);
  if (!first.is_error() && first.items[0].integer != 0)
    throw violation{7, "a stranger's release was told that it was the owner"};
  if (!second_reply.is_error() && second_reply.items[1].integer == 1)
    throw violation{7, "a stranger's renewal was told that it was the owner"};
  server().disconnect(id);
  distribute(master(), server().take_pushes());
  replicate(master());
}

// An operator's client, of which only the script matters here. `pushed`: what it published, in order. Where the answer
// says that there is more to do he orders it again at once, and in the end sees to what is left to pass on.
value world::order(std::string_view script, int name, std::string_view number, std::vector<std::string>& pushed) {
  set_clock();
  std::string const lock = key_of(name);
  std::string const queue = lock + ":q", fence = lock + ":f", ends = lock + ":e";
  auto const id = server().connect("10.0.9.9:3");
  value reply;
  auto const run = [&](std::vector<std::string_view> const& argv) {
    auto const freeing = observer_->about_to_free(argv);
    reply = server().execute(id, argv);
    observer_->freed(freeing, reply);
    auto const pushes = server().take_pushes();
    for (auto const& p : pushes) pushed.push_back(p.message.items.back().text);
    if (trace_.on) say("server: an operator's " + std::string{script} + " -> " + describe(reply));
    observer_->ordered(name);
    distribute(master(), pushes);
    replicate(master());
  };
  std::vector<std::string> cursor;
  std::int64_t flags = 0;
  do {
    std::vector<std::string_view> argv{"EVAL", mutated_source(script), "4", lock, queue, fence, ends, "200", "2000",
                                       number};
    argv.insert(argv.end(), cursor.begin(), cursor.end());
    run(argv);
    if (reply.is_error()) break;
    flags = reply.items.size() > 2 ? reply.items[2].integer : 0;
    cursor.clear();
    for (std::size_t i = 5; i < reply.items.size(); ++i) cursor.push_back(std::to_string(reply.items[i].integer));
  } while (!cursor.empty());
  value const answer = reply;
  bool const is_limit = script == "permit_limit";
  std::string const limit = is_limit                                     ? std::string{number}
                            : reply.is_error() || reply.items.size() < 5 ? "1"
                                                                         : std::to_string(reply.items[4].integer);
  bool more = !reply.is_error() && (flags & (is_limit ? 2 : 4)) != 0;
  while (more) {
    std::string const kind(1, static_cast<char>(plan_.permits));
    bool const permit = plan_.permits != engine::permit_kind::none;
    std::vector<std::string_view> argv{
        "EVAL", mutated_source(permit ? "permit_release" : "release"), permit ? "4" : "3", lock, queue, fence};
    if (permit) argv.push_back(ends);
    for (std::string_view const word : {"operator.1", "0", "1000", "200", "2000"}) argv.push_back(word);
    if (permit) {
      for (std::string_view const word : {std::string_view{kind}, std::string_view{limit}, std::string_view{"1"},
                                          std::string_view{"-"}, std::string_view{"0"}})
        argv.push_back(word);
    } else {
      argv.push_back("");
    }
    run(argv);
    more = !reply.is_error() && reply.items.size() > 1 && (reply.items[1].integer & 2) != 0;
  }
  server().disconnect(id);
  return answer;
}

void world::force(int name, int variant) {
  if (nodes_[master()].down) return;
  auto owners = observer_->owners_of(name);
  std::string fence = "all";
  if (variant % 2 == 1 && !owners.empty()) {
    auto const only = *std::next(owners.begin(), variant / 2 % std::ssize(owners));
    owners = {only};
    fence = std::to_string(only.second);
  }
  observer_->lock_tampered(name);
  std::vector<std::string> pushed;
  value const reply = order("force", name, fence, pushed);
  if (!reply.is_error()) observer_->forced(name, owners, pushed, false);
}

// A stranger that guesses changes nothing. One that knows an id is believed for a claim at most, and not at all with
// verify_pushes, or when a permit or a fence cannot be.
void world::forge(int name, int variant) {
  if (nodes_[master()].down) return;
  set_clock();
  bool const knows = (variant & 1) != 0, revokes = (variant & 2) != 0,
             permits = plan_.permits != engine::permit_kind::none;
  std::string const key = key_of(name);
  std::vector<std::string> ids;
  if (!knows) {
    for (auto const& c : clients_) {
      for (int n = 1; n <= 20 && c->alive(); ++n) ids.push_back(c->id() + "." + std::to_string(n));
    }
  } else if (revokes) {
    for (auto const& [id, fence] : observer_->owners_of(name)) ids.push_back(id);
  } else {
    for (value const& item : server().peek(key + ":q").items)
      ids.push_back(item.items[0].text.substr(0, item.items[0].text.find(' ')));
  }
  std::int64_t const clock = server_us(now_) - protocol::fence_epoch_us;
  std::int64_t const fences[] = {clock, clock, clock + 3'600'000'000, protocol::fence_limit - 1};
  auto const which = static_cast<std::size_t>(variant / 4);
  std::string permit;
  if (permits) {
    char const other = plan_.permits == engine::permit_kind::semaphore ? 'r' : 's';
    std::string const wrong = plan_.permits == engine::permit_kind::segments && which % 8 < 4
                                  ? which % 2 == 0 ? "g4000000000" : "g0"
                                  : std::string{other, '0'};
    permit = (knows ? wrong
                    : std::string{static_cast<char>(plan_.permits)} +
                          (plan_.permits == engine::permit_kind::segments ? "1" : "0")) +
             " ";
  }
  std::string const grant =
      " " + std::to_string(fences[which % 4]) + " " + std::to_string(server_us(now_)) + " 86400000 " + permit + key;
  auto const connection = server().connect("10.0.9.9:4");
  for (std::string const& id : ids) {
    std::string const text = revokes ? "!" + id + " " + key : id + grant;
    std::string const channel = "conch:" + id.substr(0, id.find('.'));
    std::string_view const publish[] = {"PUBLISH", channel, text};
    if (knows && !revokes && !permits) observer_->forged(id);
    if (knows && !revokes && permits) observer_->misdescribed(id);
    if (knows && revokes) observer_->revoked_falsely(id);
    (void)server().execute(connection, publish);
  }
  server().disconnect(connection);
  distribute(master(), server().take_pushes());
  replicate(master());
}

void world::send_guarded(guarded_write const& w, nanos delay) {
  after(delay, [this, w] {
    if (nodes_[master()].down) return;
    set_clock();
    std::string const lock = key_of(w.name), resource = "resource:" + lock;
    std::string const grant =
        w.id + ' ' + std::to_string(w.fence) + (w.least_share == 0 ? "" : ' ' + std::to_string(w.least_share));
    bool const owns = observer_->owns(w);
    auto const id = server().connect("10.0.9.9:6");
    std::string_view const argv[] = {"EVAL", mutated_source("guarded"), "2", lock, resource, grant, "DEL"};
    value const reply = server().execute(id, argv);
    server().disconnect(id);
    if (trace_.on) say("server: a guarded write of " + grant + " -> " + describe(reply));
    observer_->guarded(w, owns, reply);
    distribute(master(), server().take_pushes());
    replicate(master());
  });
}

void world::set_limit(int name, int limit) {
  if (nodes_[master()].down) return;
  std::vector<std::string> pushed;
  value const reply = order("permit_limit", name, std::to_string(limit), pushed);
  observer_->limit_set(name, limit, !reply.is_error(), false);
}

}  // namespace conch::sim
