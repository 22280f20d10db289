-- Takes a mutex without owner and waiters, the usual case: with the fence that the clock shows. `taken` tells whether it has. If not, it is for
-- next_fence() and own(), which know the other cases and report what is wrong; next_fence() has to be given `before`, the fence that was there: it is
-- overwritten by now. A piece of code to include where it is needed, since making a function costs a script more than running it. The caller defines
-- lock_key, fence_key, id, lease, retention, and digits: the clock as text, which must be above 0.
local before = redis.pcall('SET', fence_key, digits, 'PX', retention, 'GET')
-- As texts of one length: to make a number of it costs as much as a command.
local taken = not before or type(before) == 'string' and #before == #digits and before < digits
if taken then
  taken = not redis.pcall('SET', lock_key, id .. ' ' .. digits .. ' h', 'PX', lease).err
end
