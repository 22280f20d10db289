-- Tells the first in the queue when the lease of the present owner ends, on top of lib/channel.lua. They sleep until the end of the lease that they
-- were told of, which may be the longer one of an earlier owner. It tells the first few, since one may be dead behind a connection that the
-- server believes alive. A push "~ID LEFT KEY": its client asks again at that time, or earlier. A waiter that is not told asks by itself, later.
-- The caller also defines lock_key.
local function tell_end(line_key, left, most)
  local line = redis.pcall('ZRANGE', line_key, 0, most - 1)
  for i = 1, #line do
    local id = string.match(line[i], '^%S+')
    redis.pcall(publish, channel_of(id), '~' .. id .. string.format(' %.0f ', left) .. lock_key) -- a name may have a zero byte, where %s ends
  end
end
