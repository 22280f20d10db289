-- What the scripts of one lock of any kind share, on top of lib/fence.lua. The caller also defines lock_key, queue_key.
--
--   queue_key  zset    queued ids, by ticket
--
-- @include lib/fence.lua

-- One script looks at no more than this many heads of the queue, or owners whose leases have expired: meanwhile the server answers nobody
-- else. What is left is for the next script: the client that got the answer asks again at once.
local most_steps = 100

-- For a key without an expiry (PERSIST), for which PTTL answers -1: it lives as long as the longest lease.
local longest_lease = 86400000

local function not_a_lock()
  return redis.error_reply('WRONGTYPE ' .. lock_key .. ' holds something that is not a lock')
end

-- Joins the queue: at the old place if there was one, else at the end. If there are two, the earlier counts: a late
-- request from before the ticket was known may have taken one at the end. The queue outlives the lock by the asker's
-- lease, so that no waiter is forgotten when a holder dies. Answers the ticket, and whether it was not queued before.
local function enqueue(id, ticket, lock_left, lease)
  local empty = false
  if ticket == 0 then
    ticket = now
    local last = redis.call('ZRANGE', queue_key, -1, -1, 'WITHSCORES')
    empty = not last[2]
    if last[2] and last[2] + 1 > ticket then
      ticket = last[2] + 1
    end
  end
  local added = redis.pcall('ZADD', queue_key, 'LT', text(ticket), id)
  if added ~= 1 and added ~= 0 then
    if gives_back and string.find(added.err, 'OOM', 1, true) then
      redis.pcall('ZREM', queue_key, '') -- as in next_fence
    end
    added = redis.call('ZADD', queue_key, 'LT', text(ticket), id)
  end
  local is_new = added == 1
  if not is_new then
    ticket = tonumber(redis.call('ZSCORE', queue_key, id))
  end
  local lives = lock_left + lease
  if empty or redis.call('PTTL', queue_key) < lives then
    redis.call('PEXPIRE', queue_key, lives)
  end
  return ticket, is_new
end
