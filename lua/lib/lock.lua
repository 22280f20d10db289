-- What the scripts of one lock share, on top of lib/fence.lua. The caller also defines queue_key, claim.
--
--   queue_key  zset    ids in line, by ticket
--
-- @include lib/fence.lua

local function parse(value)
  return string.match(value, '^(%S+) (%d+) ([hc])$')
end

local function not_a_lock()
  return redis.error_reply('WRONGTYPE ' .. lock_key .. ' holds something that is not a lock')
end

-- Makes the lease at least `lease` from now, and a claim a hold.
local function extend(key, id, fence, state, lease)
  local left = redis.call('PTTL', key)
  if state == 'c' then
    redis.call('SET', key, id .. ' ' .. fence .. ' h', 'PX', math.max(left, lease))
  elseif left < lease then
    redis.call('PEXPIRE', key, lease)
  end
end

-- Stands in line: at the old place if there was one, else behind everybody. Of two places the earlier counts: a late
-- request from before the ticket was known may have taken one at the end. The line outlives the lock by the asker's
-- lease, so that nobody is forgotten when a holder dies.
local function enqueue(id, ticket, lock_left, lease)
  if ticket == 0 then
    ticket = now
    local last = redis.call('ZRANGE', queue_key, -1, -1, 'WITHSCORES')
    if last[2] and last[2] + 1 > ticket then
      ticket = last[2] + 1
    end
  end
  if redis.call('ZADD', queue_key, 'LT', text(ticket), id) == 0 then
    ticket = tonumber(redis.call('ZSCORE', queue_key, id))
  end
  local lives = lock_left + lease
  if redis.call('PTTL', queue_key) < lives then
    redis.call('PEXPIRE', queue_key, lives)
  end
  return ticket
end

-- Publishes to the client of `id`, and answers whether it heard. Only to this server's own subscribers: after a role change a
-- client may still be connected to what is a replica now. There it would hear what this server does not count, and two
-- would be granted. Where nobody heard, a message that is replicated tells such a client to ask again: it learns that it
-- is at a replica.
local function reach(id, message)
  local channel, set_repl = 'conch:' .. string.match(id, '^[^.]*'), redis.set_repl
  if set_repl then
    set_repl(redis.REPL_NONE)
  end
  local heard = redis.call('PUBLISH', channel, message)
  if set_repl then
    set_repl(redis.REPL_ALL)
  end
  if heard == 0 then
    redis.call('PUBLISH', channel, '?' .. id .. ' ' .. lock_key)
  end
  return heard > 0
end

-- After a restart, or a role change, the first in line may not have connected again yet. A patient script does not pass it
-- over, nor another of the first `room` in line. Answers who is awaited, if not `me`. Those behind are told, too, to come: their turn is next.
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

-- Gives the free lock to the first in line whose client hears of it, and only then writes it down as the owner:
-- an owner that nobody told would hold the lock for nothing. Answers the fence if that is `me` (told by the reply
-- of this very script), else who has it now, if anybody.
local function pass_on(me, my_lease, floor, my_state)
  local fence, digits = next_fence(floor)
  while true do
    local head = redis.call('ZPOPMIN', queue_key)
    local id = head[1]
    if not id then
      return nil, false
    end
    if id == me then
      own(id, digits, my_state or 'h', my_lease)
      return fence, id
    end
    local grant = id .. ' ' .. digits .. ' ' .. text(now) .. ' ' .. claim .. ' ' .. lock_key
    -- An entry with a blank is of a lock of another kind, whose client could not read this.
    if not string.find(id, ' ', 1, true) and reach(id, grant) then
      own(id, digits, 'c', claim)
      return nil, id
    end
  end
end
