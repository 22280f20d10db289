-- The functions of a mutex. They return the same numbers as lua/*.lua (docs/protocol.md); src/servers/memory has the same rules in C++.

-- Gives a lock without owner to the next in line. Afterwards the row names the new owner, if there is one.
create or replace function conch.pass_on(l conch.lock, me text, my_lease bigint, claim bigint, retention bigint, floor bigint, t bigint)
returns conch.lock language plpgsql as $$
declare head conch.line;
begin
  l := conch.next_fence(l, floor, retention, t);
  loop
    delete from conch.line q where q.ctid = (select x.ctid from conch.line x where x.key = l.key order by x.ticket, x.id, x.rest limit 1)
      returning * into head;
    exit when not found;
    continue when head.rest <> '';  -- a waiter for a lock of another kind
    if head.id = me then
      l.owner := me; l.owner_fence := l.fence; l.claimed := false; l.owner_until := t / 1000 + my_lease;
      exit;
    end if;
    if conch.hears(head.id) then
      perform conch.grant(head.id, l.fence, t, claim, 0, 0, l.key);
      l.owner := head.id; l.owner_fence := l.fence; l.claimed := true; l.owner_until := t / 1000 + claim;
      exit;
    end if;
  end loop;
  return conch.shorter_line(l);
end $$;

-- Is one of the first `room` waiters, other than `me`, disconnected? It may be about to reconnect.
create or replace function conch.awaits_any(k bytea, me text, room bigint) returns boolean language sql as
$$ select exists (select from (select q.id from conch.line q where q.key = k order by q.ticket, q.id, q.rest limit greatest(least(room, 100), 0)) x
                  where x.id is distinct from me and not conch.hears(x.id)) $$;

create or replace function conch.acquire(k bytea, me text, waits boolean, patient boolean, lease bigint, claim bigint, retention bigint,
  shown bigint, not_after bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; q bigint; remains bigint; was_claim boolean; soon constant bigint := 20;
begin
  if not_after = 0 then  -- the usual case: no owner, no waiters, no shares, not even expired ones, which could come back with the clock
    update conch.lock x set owner = me, owner_fence = c.t - FENCE_EPOCH_US, claimed = false, owner_until = c.t / 1000 + lease,
      fence = c.t - FENCE_EPOCH_US, fence_until = c.t / 1000 + retention
    from (select conch.now_us() as t, a.quiet_until, a.longest from conch.alive a) c
    where x.key = k and x.owner_until < c.t / 1000 and x.hash_until = -1 and not x.waiting
      and (x.fence_until < c.t / 1000 or x.fence < c.t - FENCE_EPOCH_US) and c.t > FENCE_EPOCH_US and c.quiet_until <= c.t and greatest(lease, claim) <= c.longest
    returning c.t into t;
    if found then return array[1, t - FENCE_EPOCH_US, t]; end if;
  end if;
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  l := conch.without_expired(l, ms);
  if l.hash_until <> -1 then perform conch.wrong_kind(); end if;
  remains := conch.quiet(greatest(lease, claim), t);
  if l.owner_until <> -1 then
    if l.owner = me then
      was_claim := l.claimed;
      l.claimed := false;
      l.owner_until := greatest(l.owner_until, ms + lease);
      perform conch.put(l);
      if was_claim then perform conch.tell_end(k, lease, 3); end if;
      return array[1, l.owner_fence, t];
    end if;
    remains := greatest(l.owner_until - ms, remains);
  end if;
  if l.owner_until <> -1 or remains > 0 then
    if waits then
      q := conch.enqueue(k, me, '', shown, t);
      l := conch.keep_line(l, remains + lease, ms);
    end if;
    perform conch.put(l);
    return case when waits then array[0, remains, t, q] else array[2, remains, t] end;
  end if;
  if l.waiting then
    if waits then
      q := conch.enqueue(k, me, '', shown, t);
      l := conch.keep_line(l, claim + lease, ms);
    end if;
    if patient and conch.awaits_any(k, me, 1) then
      perform conch.put(l);
      return case when waits then array[0, soon, t, q] else array[2, soon, t] end;
    end if;
    l := conch.pass_on(l, me, lease, claim, retention, 0, t);
    if l.owner_until <> -1 and l.owner = me then perform conch.tell_end(k, lease, 3); end if;
  end if;
  if l.owner_until = -1 then
    l := conch.next_fence(l, 0, retention, t);
    l.owner := me; l.owner_fence := l.fence; l.claimed := false; l.owner_until := ms + lease;
  end if;
  perform conch.put(l);
  return case when l.owner = me then array[1, l.owner_fence, t]
              when waits then array[0, claim, t, q, l.waiting::int] else array[2, claim, t, 0, l.waiting::int] end;
end $$;

create or replace function conch.adopt(k bytea, me text, lease bigint, retention bigint, not_after bigint, origin text)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  l := conch.without_expired(l, ms);
  if l.hash_until <> -1 then perform conch.wrong_kind(); end if;
  perform conch.quiet(lease, t);
  if l.owner_until <> -1 and l.owner = me then
    l.claimed := false;
    l.owner_until := greatest(l.owner_until, ms + lease);
  elsif l.owner_until <> -1 and l.owner || ' ' || l.owner_fence = origin then
    l.owner := me; l.claimed := false; l.owner_until := ms + lease;
    perform conch.tell_end(k, lease, 3);
  else
    return array[2, 0, t];
  end if;
  l := conch.keep_fence(l, l.owner_fence, retention, t);
  perform conch.put(l);
  return array[1, l.owner_fence, t];
end $$;

-- Locks all rows first, and in key order: otherwise two such commands could deadlock.
create or replace function conch.lock_rows(ks bytea[], make boolean) returns void language plpgsql as $$
declare there bigint;
begin
  if make then
    select count(*) into there from conch.lock x where x.key = any (ks);
    if there < cardinality(ks) then insert into conch.lock (key) select distinct k from unnest(ks) k order by k on conflict do nothing; end if;
  end if;
  perform 1 from conch.lock x where x.key = any (ks) order by x.key for update;
end $$;

create or replace function conch.acquire_all(ks bytea[], ids text[], leases bigint[], retention bigint, not_after bigint)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; r bigint[];
begin
  perform conch.lock_rows(ks, true);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  r := array[t];
  if conch.quiet((select max(x) from unnest(leases) x), t) > 0 then return r; end if;
  for i in 1 .. cardinality(ks) loop
    l := conch.without_expired(conch.load(ks[i]), ms);
    if l.owner_until = -1 and l.hash_until = -1 and not l.waiting then
      l := conch.next_fence(l, 0, retention, t);
      l.owner := ids[i]; l.owner_fence := l.fence; l.claimed := false; l.owner_until := ms + leases[i];
    elsif l.owner_until <> -1 and l.owner = ids[i] then
      if l.claimed then perform conch.tell_end(ks[i], leases[i], 3); end if;
      l.claimed := false;
      l.owner_until := greatest(l.owner_until, ms + leases[i]);
    else
      exit;
    end if;
    perform conch.put(l);
    r := r || l.owner_fence;
  end loop;
  return r;
end $$;

create or replace function conch.release(k bytea, me text, keep boolean, patient boolean, lease bigint, claim bigint, retention bigint, again text)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; q bigint; mine boolean; floor bigint; remains bigint;
  was_claim boolean; was_first boolean; seen tid; l_until bigint; f bigint; head text; place tid; others boolean; clock bigint; told text;
begin
  if not keep and again = '' then  -- the usual cases: the owner releases, and nobody waits ...
    update conch.lock x set owner_until = -1 from (select conch.now_us() / 1000 as ms) c
    where x.key = k and x.owner = me and x.owner_until >= c.ms and not x.waiting and x.alert_until = -1;
    if found then return array[1]; end if;
    if not patient then
      -- ... or the first in line listens: the rest of this function, in fewer statements. Every change of the line also changes the lock's row.
      -- So what is read here is still true if the row has not changed.
      t := conch.now_us();
      ms := t / 1000;
      select x.ctid, x.owner_fence, x.line_until, greatest(x.owner_fence, case when x.fence_until >= ms then x.fence end), q.id, q.ctid,
        exists (select from conch.line z where z.key = k and z.ctid <> q.ctid)
      into seen, floor, l_until, f, head, place, others
      from conch.lock x, lateral (select y.id, y.rest, y.ctid from conch.line y where y.key = x.key order by y.ticket, y.id, y.rest limit 1) q
      where x.key = k and x.owner = me and x.owner_until >= ms and x.waiting and x.line_until >= ms and x.hash_until = -1 and q.rest = ''
        and exists (select from conch.alive a where claim <= a.longest);
      if found and conch.hears(head) then
        clock := t - FENCE_EPOCH_US;
        f := greatest(clock, f + 1);
        update conch.lock x set owner = head, owner_fence = f, claimed = true, owner_until = ms + claim, fence = f,
          fence_until = ms + retention + (f - clock + 999) / 1000, waiting = others, line_until = case when others then l_until else -1 end
        where x.key = k and (x.ctid = seen) is true  -- `is true` avoids a TID scan, which takes a row that has changed meanwhile
        returning pg_notify('conch_' || split_part(head, '.', 1),
          '+ ' || head || ' ' || f || ' ' || t || ' ' || claim || ' 0 0 ' || encode(k, 'hex'))::text into told;
        if found then
          delete from conch.line q where q.ctid = place;
          return array[1, 1, others::int, t];
        end if;
      end if;
    end if;
  end if;
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  l := conch.without_expired(l, ms);
  if l.hash_until <> -1 then perform conch.wrong_kind(); end if;
  remains := conch.quiet(greatest(lease, claim), t);
  mine := l.owner_until <> -1 and l.owner = me;
  if mine and keep then
    was_claim := l.claimed;
    l.claimed := false;
    l.owner_until := greatest(l.owner_until, ms + lease);
    perform conch.put(l);
    if was_claim then perform conch.tell_end(k, lease, 3); end if;
    return array[2, l.owner_fence, 0, t];
  end if;
  floor := case when mine then l.owner_fence else 0 end;
  if not mine then
    was_first := l.owner_until <> -1 and l.waiting and conch.is_first(k, me, '');
    l := conch.leave_line(l, me, '');
    if l.owner_until <> -1 and again = '' and (was_first or l.claimed) then
      perform conch.tell_end(k, l.owner_until - ms, case when was_first then 1 else 3 end);
    end if;
    if l.owner_until <> -1 or remains > 0 then
      if again <> '' then
        if l.owner_until <> -1 then remains := greatest(remains, l.owner_until - ms); end if;
        q := conch.enqueue(k, again, '', 0, t);
        l := conch.keep_line(l, remains + lease, ms);
      end if;
      perform conch.put(l);
      return case when again = '' then array[0, 0, 0, t] else array[0, 0, 1, t, 0, remains, q] end;
    end if;
  end if;
  if patient and l.waiting and conch.awaits_any(k, null, 1) then
    perform conch.put(l);
    return array[case when mine then 3 else 0 end, 0, 1, t];
  end if;
  l.owner_until := -1;
  if not l.waiting then
    if again = '' then
      l := conch.tell_freed(l);
      perform conch.put(l);
      return case when mine then array[1] else array[0, 0, 0, t] end;
    end if;
    l := conch.next_fence(l, floor, retention, t);
    l.owner := again; l.owner_fence := l.fence; l.claimed := false; l.owner_until := ms + lease;
    perform conch.put(l);
    return array[mine::int, 0, 0, t, 1, l.owner_fence];
  end if;
  if again <> '' then
    q := conch.enqueue(k, again, '', 0, t);
    l := conch.keep_line(l, claim + lease, ms);
  end if;
  l := conch.pass_on(l, nullif(again, ''), lease, claim, retention, floor, t);
  if l.owner_until = -1 then l := conch.tell_freed(l); end if;
  perform conch.put(l);
  return case when l.owner_until <> -1 and l.owner = again then array[mine::int, 0, l.waiting::int, t, 1, l.owner_fence]
              when again <> '' then array[mine::int, 1, l.waiting::int, t, 0, claim, q]
              else array[mine::int, (l.owner_until <> -1)::int, l.waiting::int, t] end;
end $$;

-- Within the minimum interval after its grant a lock is not given back: its lease ends with the interval.
create or replace function conch.release_later(k bytea, me text, ends_in bigint, claim bigint, retention bigint)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  l := conch.without_expired(l, ms);
  if l.hash_until <> -1 then perform conch.wrong_kind(); end if;
  perform conch.quiet(greatest(ends_in, claim), t);
  if l.owner_until = -1 or l.owner <> me then return conch.release(k, me, false, false, claim, claim, retention, ''); end if;
  l.claimed := false;
  l.owner_until := ms + ends_in;
  perform conch.put(l);
  perform conch.tell_end(k, ends_in, 3);
  perform conch.tell_watchers_end(k, ends_in);
  return array[1, 0, 0, t];
end $$;

create or replace function conch.renew(ks bytea[], ids text[], fences bigint[], leases bigint[], retention bigint)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; r bigint[]; ok integer; was_claim boolean;
begin
  perform conch.lock_rows(ks, false);
  t := conch.now_us();
  ms := t / 1000;
  perform conch.quiet((select max(x) from unnest(leases) x), t);
  r := array[t];
  for i in 1 .. cardinality(ks) loop
    if retention <> 0 then select x.claimed into was_claim from conch.lock x where x.key = ks[i]; end if;
    update conch.lock x set claimed = false, owner_until = greatest(x.owner_until, ms + leases[i])
    where x.key = ks[i] and x.owner = ids[i] and x.owner_until >= ms and (fences[i] is null or x.owner_fence = fences[i])
    returning * into l;
    get diagnostics ok = row_count;
    if ok > 0 and retention <> 0 then
      l := conch.keep_fence(conch.without_expired(l, ms), l.owner_fence, retention, t);
      perform conch.put(l);
      if was_claim then
        perform conch.tell_end(ks[i], leases[i], 3);
        perform conch.tell_watchers_end(ks[i], leases[i]);
      end if;
    end if;
    r := r || ok::bigint;
  end loop;
  return r;
end $$;
