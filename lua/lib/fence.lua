-- The caller defines fence_key, retention, and where something is given back queue_key.
--
--   fence_key  string  the highest server part of a fence
-- @include lib/time.lua

-- The key of a lock that its owner gives back: it is free even if it cannot be granted.
local gives_back

local function kept(fence)
  return fence == clock and retention or text(retention + math.ceil((fence - clock) / 1000))
end

-- Mostly the fence of each grant of a script is what the clock shows; to make a text of it costs as much as a command.
local clock_digits
local function digits_of(fence)
  if fence ~= clock then
    return text(fence)
  end
  clock_digits = clock_digits or text(clock)
  return clock_digits
end

-- The server part of a fence, as a number and as text: above every earlier one, whether data or the clock went back (not
-- both at once). Written before anything else changes, so that a refused write leaves nothing half done. `found`: what was there, if lib/take_free.lua
-- has written the clock already.
local function next_fence(floor, found)
  local fence = math.max(clock, floor + 1)
  local digits = digits_of(fence)
  local answer = found
  if answer == nil then
    answer = redis.pcall('SET', fence_key, digits, 'PX', kept(fence), 'GET')
  end
  local before = tonumber(answer or 0)
  if not before and type(answer) == 'table' then
    if gives_back and string.find(answer.err, 'WRONGTYPE', 1, true) then
      redis.call('DEL', gives_back)
    elseif gives_back and string.find(answer.err, 'OOM', 1, true) then
      -- To give back must not fail for want of memory: the server refuses it only to a script that has written nothing yet. This changes nothing.
      redis.pcall('ZREM', queue_key, '')
    end
    -- Fails once more, and ends the script with its error. Or it does not, and returns what was there.
    before = tonumber(redis.call('SET', fence_key, digits, 'PX', kept(fence), 'GET') or 0)
  end
  if before and before >= fence then
    fence = math.min(before + 1, 9007199254740991) -- a value that another program wrote may be beyond what a number can count
    digits = text(fence)
    redis.call('SET', fence_key, digits, 'PX', kept(fence))
  end
  return fence, digits
end
