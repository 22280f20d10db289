-- What the hash of a lock with several owners (lib/permits.lua) contains about all of them, and about `id`; the caller defines lock_key, id, kind.
local few_owners = 100 -- one script looks at all of them up to this number; more have a set of ends
local in_order = kind ~= 'KIND_SEGMENTS' and kind ~= 'KIND_REENTRANT' -- no waiter is passed over
local first_heads -- of the queue, with their tickets, if the caller has read them already
local known
if in_order then
  known = redis.pcall('HMGET', lock_key, 'sums', id)
else
  known = redis.pcall('HMGET', lock_key, 'sums', id, 'walked')
end
