// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/holder_names.hpp"

#include "base/introduction.hpp"
#include "client/questions.hpp"

#include <chrono>
#include <cstddef>
#include <memory>

namespace conch::detail {

namespace {

constexpr duration is_recent = std::chrono::seconds{1};
/// A thousand locks whose waits end together must not become a burst of questions.
constexpr std::size_t most_questions = 100;

/// The first holder, and how many there are besides.
class holder_question final : public questions {
 public:
  holder_question(settings_ptr lock, std::function<void(std::string words)> handler)
      : questions{std::move(lock)},
        handler_{std::move(handler)} {}

  void begin() { ask(kind::inspect, lock_->name); }

 private:
  void answered(client_request const& q, asio::any_io_executor const&) override {
    if (q.what == kind::identify) return report(read_introduction(q.result.identity));
    if (q.why || q.result.status->owners.empty()) return handler_({});
    first_ = holder_of(q.result.status->owners.front());
    others_ = q.result.status->held - 1;
    ask(kind::identify, first_.client);
  }
  void drop() override { handler_ = nullptr; }

  void report(introduction const& of) {
    first_.label = of.label;
    first_.note = note_of(of, lock_->name, first_.fence / engine::hand_offs_per_grant).value_or("");
    std::string words = name_of_client(first_.label, first_.note, first_.client);
    if (others_ > 0) words += " and " + std::to_string(others_) + (others_ == 1 ? " other" : " others");
    handler_(std::move(words));
  }

  std::function<void(std::string words)> handler_;
  lock_holder first_;
  std::int64_t others_ = 0;
};

}  // namespace

void holder_names::ask(std::string_view lock, time_point now) {
  std::erase_if(recent_, [now](auto const& one) { return one.second.asked_at + is_recent <= now; });
  if (recent_.size() >= most_questions || recent_.contains(lock)) return;
  ask_(recent_.emplace(lock, answer{now, {}}).first->first);
}

std::string holder_names::holder_of(std::string_view lock, time_point now) const {
  auto const one = recent_.find(lock);
  // A wait can end almost as long after the question as that counts as recent.
  bool const is_known = one != recent_.end() && now - one->second.asked_at <= 2 * is_recent;
  return is_known ? one->second.words : std::string{};
}

void holder_names::answered(std::string_view lock, std::string words) {
  if (auto const one = recent_.find(lock); one != recent_.end()) one->second.words = std::move(words);
}

void ask_who_has(settings_ptr lock, std::function<void(std::string words)> handler) {
  std::make_shared<holder_question>(std::move(lock), std::move(handler))->begin();
}

}  // namespace conch::detail
