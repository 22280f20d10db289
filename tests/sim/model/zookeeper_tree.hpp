// What each server of the model keeps: the tree that worlds of users have, too.
#pragma once

#include "servers/simulated/node_tree.hpp"

namespace conch::sim {

using zookeeper_tree = simulated::node_tree;
using zookeeper_transaction = simulated::transaction;

}  // namespace conch::sim
