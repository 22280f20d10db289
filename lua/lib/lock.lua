-- What the scripts of one lock share. The caller defines lock_key, queue_key, fence_key, retention, claim.
--
--   lock_key   string  "ID FENCE STATE", STATE is h (held) or c (claimed, not yet confirmed); lives the lease
--   queue_key  zset    ids in line, by ticket
--   fence_key  string  the highest server part of a fence
--
-- TIME is read once, first: a script must see one moment only.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whole numbers as text: tostring and .. lose digits above 10^14.
local function text(number)
  return string.format('%.0f', number)
end

local function parse(value)
  return string.match(value, '^(%S+) (%d+) ([hc])$')
end

local function not_a_lock()
  return redis.error_reply('WRONGTYPE ' .. lock_key .. ' holds something that is not a lock')
end

-- The server part of a fence: above every earlier one, whether data or the clock went back (not both at once).
-- Written before anything else changes, so that a refused write leaves nothing half done.
local function next_fence(floor)
  local clock = now - 1577836800000000
  local fence = math.max(clock, floor + 1)
  local function keep()
    return text(retention + math.ceil((fence - clock) / 1000))
  end
  local before = tonumber(redis.call('SET', fence_key, text(fence), 'PX', keep(), 'GET') or 0)
  if before and before >= fence then
    fence = before + 1
    redis.call('SET', fence_key, text(fence), 'PX', keep())
  end
  return fence
end

local function own(id, fence, state, lease)
  redis.call('SET', lock_key, id .. ' ' .. text(fence) .. ' ' .. state, 'PX', lease)
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

-- Gives the free lock to the first in line whose client hears of it, and only then writes it down as the owner:
-- an owner that nobody told would hold the lock for nothing. Answers the fence if that is `me` (told by the reply
-- of this very script), else who has it now, if anybody.
local function pass_on(me, my_lease, floor, my_state)
  local fence = next_fence(floor)
  while true do
    local head = redis.call('ZPOPMIN', queue_key)
    local id = head[1]
    if not id then
      return nil, false
    end
    if id == me then
      own(id, fence, my_state or 'h', my_lease)
      return fence, id
    end
    local grant = id .. ' ' .. text(fence) .. ' ' .. text(now) .. ' ' .. claim .. ' ' .. lock_key
    if redis.call('PUBLISH', 'conch:' .. string.match(id, '^[^.]*'), grant) > 0 then
      own(id, fence, 'c', claim)
      return nil, id
    end
  end
end
