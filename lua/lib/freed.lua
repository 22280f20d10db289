-- Telling those who wait for a lock to be free (lua/watch.lua), on top of lib/line.lua. The caller also defines lock_key, watchers_key, alert_key.
--
--   :w  zset    the ids of those who wait, by the time of their asking
--   :a  string  there are some: who frees the lock deletes this key with it, and needs no command of its own to find out
--
-- A release makes these two keys, and is not given them with the others: it would carry them for the few locks that have them. On a server that
-- demands each key that a script touches (Dragonfly, ElastiCache Serverless) the lock is given back all the same, and tells nobody; there they ask
-- more often (lua/watch.lua). So whoever frees it deletes both keys, and if that is refused, the lock alone.
-- @include lib/channel.lua

-- A push "=ID KEY" for each of them, of so many as one script does. Of the last one "+ID KEY" if there are more: its client goes on (lua/watch.lua).
-- The lock is given back by now. Nothing here may make an error of that: who is not told asks by itself.
local function tell_freed()
  local told = redis.pcall('ZPOPMIN', watchers_key, most_steps)
  local left = redis.pcall('PTTL', watchers_key)
  left = tonumber(left) or 0
  if left > 0 then
    redis.pcall('SET', alert_key, '', 'PX', left)
  end
  for i = 1, #told, 2 do
    local mark = left > 0 and i == #told - 1 and '+' or '='
    redis.pcall(publish, channel_of(told[i]), mark .. told[i] .. ' ' .. lock_key)
  end
end
