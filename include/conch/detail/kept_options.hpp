// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/mutex.hpp>
#include <conch/owner.hpp>

#include <memory>
#include <optional>
#include <string>

namespace conch::detail {

/// acquire_options for an operation that asks after its caller has returned: note and task only live until then.
class kept_options {
 public:
  explicit kept_options(acquire_options const& o) : options_{o} {
    if (o.note.empty() && o.task == nullptr) return;
    words_ = std::make_shared<words>(words{std::string{o.note}, std::nullopt});
    options_.note = words_->note;
    if (o.task != nullptr) options_.task = &words_->task.emplace(*o.task);
  }

  acquire_options const& get() const noexcept { return options_; }

 private:
  struct words {
    std::string note;
    std::optional<owner> task;
  };

  acquire_options options_;
  std::shared_ptr<words> words_;  // at one address, wherever the operation is moved
};

}  // namespace conch::detail
