-- What grants a lock that is free. The caller defines lock_key, fence_key, retention.
--
--   lock_key   string  "ID FENCE STATE", STATE is h (held) or c (claimed, not yet confirmed); lives the lease
--   fence_key  string  the highest server part of a fence
-- @include lib/time.lua

-- The server part of a fence, as a number and as text: above every earlier one, whether data or the clock went back (not
-- both at once). Written before anything else changes, so that a refused write leaves nothing half done.
local function next_fence(floor)
  local fence = math.max(clock, floor + 1)
  local function kept()
    return fence == clock and retention or text(retention + math.ceil((fence - clock) / 1000))
  end
  local digits = text(fence)
  local before = tonumber(redis.call('SET', fence_key, digits, 'PX', kept(), 'GET') or 0)
  if before and before >= fence then
    fence = math.min(before + 1, 9007199254740991) -- what somebody wrote there may be beyond what a number can count
    digits = text(fence)
    redis.call('SET', fence_key, digits, 'PX', kept())
  end
  return fence, digits
end

local function own(id, digits, state, lease)
  redis.call('SET', lock_key, id .. ' ' .. digits .. ' ' .. state, 'PX', lease)
end

-- The answer to whoever has it now, in one number where one tells both fence and clock: the clock shows what the fence says,
-- or it is the fence that was proposed.
local function granted(fence, proposal)
  if fence == clock then
    return fence
  elseif fence == proposal then
    return -now
  end
  return {1, fence, now}
end
