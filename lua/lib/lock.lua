-- What the scripts of one mutex share, on top of lib/own.lua and lib/line.lua.
-- @include lib/own.lua
-- @include lib/line.lua

local function parse(value)
  return string.match(value, '^(%S+) (%d+) ([hc])$')
end

-- Makes the lease at least `lease` from now, and a claim (`state`) a hold; answers whether it was one. At full memory a server lets a script write
-- a text only after another write, which needs no memory.
local function extend(key, id, fence, state, lease)
  local left = redis.call('PTTL', key)
  if state == 'c' then
    redis.call('PEXPIRE', key, math.max(left, lease))
    redis.call('SET', key, id .. ' ' .. fence .. ' h', 'PX', math.max(left, lease))
    return true
  elseif left < lease then
    redis.call('PEXPIRE', key, lease)
  end
end
