-- Reaches the waiters by the channels of their clients, on top of lib/channel.lua. The caller also defines lock_key, queue_key.
--
-- @include lib/channel.lua
-- @include lib/told.lua

-- Publishes to the client of `id`, and answers whether it was subscribed. Only to this server's own subscribers: after a role change a
-- client may still be connected to what is a replica now. There it would receive what this server does not count, and two
-- would be granted. If there was no subscriber, a message that is replicated tells such a client to ask again: it learns that it
-- is at a replica.
--
-- At a node of a Cluster a publication stays in its shard, and names the node in the channel: no other node's subscribers receive it, and the former
-- owner of the slot tells its own that they are no longer subscribed.
--
-- PUBLISH also counts a tool that watches all channels (PSUBSCRIBE), so that dead clients look alive there. A script that gives
-- back its client's lock does not ask further: that is every ordinary hand-over. All others, which find that a client did not take the lock, ask
-- for the subscribers of that very channel, where the user may.
local silent -- clients that this script has found unsubscribed
local exact = false
local function reach(id, message)
  local channel, set_repl, heard = channel_of(id), not shard and redis.set_repl, 0
  local subscribers = exact and redis.pcall('PUBSUB', shard and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
  if subscribers ~= 0 and not (silent and silent[channel]) then
    if set_repl then
      set_repl(redis.REPL_NONE)
    end
    heard = redis.call(publish, channel, message)
    if set_repl then
      set_repl(redis.REPL_ALL)
    end
  end
  if heard == 0 then
    silent = silent or {}
    silent[channel] = true
    if not shard then
      redis.call('PUBLISH', channel, '?' .. id .. ' ' .. lock_key)
    end
  end
  return heard > 0
end

-- After a restart, or a role change, the first in the queue may not have reconnected yet. A patient script does not pass it
-- over, nor another of the first `room` in the queue. Answers which one is awaited, if not `me`. Those behind are also told to come: they are next.
local function awaited(me, room)
  local one
  for place, entry in ipairs(redis.call('ZRANGE', queue_key, 0, 99)) do
    local id = string.match(entry, '^%S+')
    if id ~= me and not reach(id, '') and place <= room then
      one = id
    end
  end
  return one
end
