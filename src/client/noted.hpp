// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/introducing.hpp"

#include <conch/mutex.hpp>
#include <conch/owner.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace conch::detail {

/// What introduces an acquire with a note or a task to other clients. It is a part of its node, which it keeps while it
/// is introduced. With the client locked.
class noted final : public engine::noted_acquire {
 public:
  noted(hold_node& n, settings_ptr s, std::string_view text, owner_ptr by)
      : settings{std::move(s)},
        of_{n},
        note_{text},
        task_{std::move(by)} {}

  /// From now on it is introduced.
  void keep_node();
  hold_node& node() const noexcept { return of_; }

  engine::acquisition_phase phase() const noexcept override;
  std::int64_t fence() const noexcept override;
  std::string_view lock() const noexcept override { return settings->name; }
  std::string_view note() const noexcept override { return note_; }
  bool has_task() const noexcept override { return task_ != nullptr; }
  std::string task() const override;
  void left() noexcept override;

  settings_ptr const settings;
  error_code refusal{};  // why the shell ends its wait

 private:
  hold_node& of_;
  std::string const note_;
  owner_ptr const task_;  // empty: none
  node_ref keeps_node_{};
};

}  // namespace conch::detail
