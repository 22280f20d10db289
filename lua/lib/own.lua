-- What grants a mutex that is free, on top of lib/fence.lua. The caller also defines lock_key.
--
--   lock_key   string  "ID FENCE STATE", STATE is h (held) or c (claimed, not yet confirmed); lives the lease
-- @include lib/fence.lua

local function own(id, digits, state, lease)
  redis.call('SET', lock_key, id .. ' ' .. digits .. ' ' .. state, 'PX', lease)
end

-- The answer to the owner, in one number where one tells both fence and clock: the clock shows what the fence says,
-- or it is the fence that was proposed.
local function granted(fence, proposal)
  if fence == clock then
    return fence
  elseif fence == proposal then
    return -now
  end
  return {1, fence, now}
end
