-- Locks with several owners, each with a share of a limit: semaphore (115, s), shared_mutex (114, r), striped_mutex (103, g), reentrant_mutex
-- (101, e). lua/lib/permits.lua has the same letters and rules.

-- The lock as one of kind `wanted`, without expired shares.
create or replace function conch.permits(l conch.lock, wanted integer, lim bigint, retention bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  if l.owner_until <> -1 or (l.hash_until <> -1 and l.kind <> wanted) then perform conch.wrong_kind(); end if;
  if l.hash_until = -1 then
    l.lim := lim; l.used := 0; l.first_end := 0; l.map := ''; l.limit_set := false;
  end if;
  l.kind := wanted;
  if l.used > 0 and l.first_end <= t then l := conch.end_leases(l, retention, t); end if;
  if l.used = 0 then
    if not l.limit_set then l.lim := lim; end if;
    l.first_end := 0;
    l.map := case when wanted = KIND_SEGMENTS then repeat('0', l.lim::int) else '' end;
  end if;
  return l;
end $$;

create or replace function conch.mark(map text, segment bigint, taken text) returns text language sql immutable as
$$ select case when segment = 0 then map else overlay(map placing taken from segment::int for 1) end $$;

-- Call this after a change of `used`. A lock with nothing taken and no limit set is removed.
create or replace function conch.note_used(l conch.lock, retention bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  if l.used = 0 and not l.limit_set then
    delete from conch.part p where p.key = l.key;
    l.hash_until := -1;
  elsif l.limit_set and conch.left_of(l.hash_until, t / 1000) < retention then
    l.hash_until := t / 1000 + retention;
  end if;
  return l;
end $$;

create or replace function conch.end_leases(l conch.lock, retention bigint, t bigint) returns conch.lock language plpgsql as $$
declare s bigint;
begin
  for s in delete from conch.part p where p.key = l.key and p.ends <= t returning p.segment loop
    l.map := conch.mark(l.map, s, '0');
  end loop;
  select coalesce(sum(p.weight), 0), coalesce(min(p.ends), 0) into l.used, l.first_end from conch.part p where p.key = l.key;
  return conch.note_used(l, retention, t);
end $$;

create or replace function conch.take_back(l conch.lock, p conch.part, retention bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  l.used := l.used - p.weight;
  l.map := conch.mark(l.map, p.segment, '0');
  delete from conch.part x where x.key = l.key and x.id = p.id;
  return conch.note_used(l, retention, t);
end $$;

create or replace function conch.live(l conch.lock, lease bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  if conch.left_of(l.hash_until, t / 1000) < lease then l.hash_until := t / 1000 + lease; end if;
  return l;
end $$;

create or replace function conch.own_part(l conch.lock, id_ text, size bigint, is_claim boolean, lease bigint, s bigint, for_whom text, retention bigint,
  t bigint) returns conch.lock language plpgsql as $$
declare e bigint := t + lease * 1000;
begin
  l.first_end := case when l.used = 0 then e else least(l.first_end, e) end;
  l.used := l.used + size;
  if l.kind = KIND_REENTRANT then l.map := for_whom; end if;
  l.map := conch.mark(l.map, s, '1');
  l := conch.note_used(l, retention, t);
  insert into conch.part values (l.key, id_, size, l.fence, is_claim, e, s)
    on conflict (key, id) do update set weight = excluded.weight, fence = excluded.fence, claimed = excluded.claimed, ends = excluded.ends,
      segment = excluded.segment;
  return conch.live(l, lease, t);
end $$;

create or replace function conch.extend_part(l conch.lock, id_ text, lease bigint, retention bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  update conch.part p set claimed = false, ends = greatest(p.ends, t + lease * 1000) where p.key = l.key and p.id = id_;
  return conch.live(conch.note_used(l, retention, t), lease, t);
end $$;

-- Returns the segment (0 for kinds without segments), or null if it does not fit. `unwanted`: segments, as ',3,7,', or the owner of a reentrant lock.
create or replace function conch.fit(l conch.lock, size bigint, unwanted text, start bigint) returns bigint language plpgsql as $$
declare refused bigint[]; free bytea; s bigint;
begin
  if l.used >= l.lim then return null; end if;
  if l.kind = KIND_REENTRANT then return case when l.used = 0 or l.map = unwanted then 0 end; end if;
  if l.kind <> KIND_SEGMENTS then return case when l.used + least(size, l.lim) <= l.lim then 0 end; end if;
  refused := array(select m[1]::bigint from regexp_matches(unwanted, '\d+', 'g') m);
  free := convert_to(l.map, 'UTF8');
  for i in 0 .. l.lim - 1 loop
    s := (start + i) % l.lim + 1;
    if get_byte(free, (s - 1)::int) = 48 and s <> all (refused) then return s; end if;
  end loop;
  return null;
end $$;

do $$ begin
  if to_regtype('conch.let_in') is null then
    create type conch.let_in as (l conch.lock, fence bigint, segment bigint, others bigint, absent boolean);
  end if;
end $$;

-- Admits the waiters that fit. `who` is the asker, which learns the result from the answer instead of a push; '' if there is none.
-- The first waiter that does not fit blocks those behind it; with segments, and for a reentrant lock, it is skipped.
-- If `patient`, admits nobody while a waiter for whom there may be room is disconnected (`absent`).
create or replace function conch.let_in(l conch.lock, who text, me text, patient boolean, my_lease bigint, floor bigint, claim bigint, retention bigint,
  t bigint) returns conch.let_in language plpgsql as $$
declare q record; s bigint; size bigint; f bigint := floor; ready boolean := false; r conch.let_in; in_order boolean := l.kind in (KIND_SHARED, KIND_SEMAPHORE);
begin
  r.others := 0;
  r.absent := false;
  if l.waiting and l.used < l.lim and conch.quiet(0, t) = 0 then
    if patient and conch.awaits_any(l.key, me, l.lim - l.used) then
      r.absent := true;
      r.l := l;
      return r;
    end if;
    for q in select x.ctid as place, x.id, x.rest, split_part(x.rest, ' ', 2) as weight, split_part(x.rest, ' ', 3) as visited
             from conch.line x where x.key = l.key order by x.ticket, x.id, x.rest loop
      exit when l.used >= l.lim;
      if q.rest = '' or (q.id = me and who = '') then
        delete from conch.line x where x.ctid = q.place;
        continue;
      end if;
      s := conch.fit(l, q.weight::bigint, q.visited, 0);
      if s is null then
        exit when in_order;
        continue;
      end if;
      if not ready then
        l := conch.next_fence(l, f, retention, t);
        f := l.fence;
        ready := true;
      end if;
      delete from conch.line x where x.ctid = q.place;
      size := least(q.weight::bigint, l.lim);
      if q.id = who then
        l := conch.own_part(l, q.id, size, false, my_lease, s, q.visited, retention, t);
        r.fence := f;
        r.segment := s;
        ready := false;
      elsif conch.hears(q.id) then
        perform conch.grant(q.id, f, t, claim, l.kind, s, l.key);
        l := conch.own_part(l, q.id, size, true, claim, s, q.visited, retention, t);
        r.others := r.others + 1;
        ready := false;
      end if;
    end loop;
    l := conch.shorter_line(l);
  end if;
  r.l := l;
  return r;
end $$;

-- Removes dead waiters from the head of the line. One that is too large to be admitted gets no push, so nothing else would notice that it is dead.
create or replace function conch.drop_dead(l conch.lock, me text, rest_ text) returns conch.lock language plpgsql as $$
declare q record;
begin
  for q in select x.ctid as place, x.id, x.rest from conch.line x where x.key = l.key order by x.ticket, x.id, x.rest loop
    exit when (q.id = me and q.rest = rest_) or conch.hears(q.id);
    delete from conch.line x where x.ctid = q.place;
  end loop;
  return conch.shorter_line(l);
end $$;

create or replace function conch.acquire_permit(k bytea, me text, waits boolean, patient boolean, lease bigint, claim bigint, retention bigint,
  shown bigint, not_after bigint, kind integer, lim bigint, weight bigint, visited text, start bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; q bigint := shown; mine conch.part; r conch.let_in; rest text := ' ' || weight || ' ' || visited;
  remains bigint; s bigint; size bigint; passed integer := 0; nobody boolean; in_line boolean; soon constant bigint := 20;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  remains := conch.quiet(greatest(lease, claim), t);
  l := conch.permits(conch.without_expired(l, ms), kind, lim, retention, t);
  select * into mine from conch.part p where p.key = k and p.id = me and p.ends > t;
  if found then
    l := conch.extend_part(l, me, lease, retention, t);
    if mine.claimed then perform conch.tell_end(k, lease, 3); end if;
    r := conch.let_in(l, '', me, patient, 0, 0, claim, retention, t);
    perform conch.put(r.l);
    return array[1, mine.fence, t, case when weight = 0 then mine.weight else mine.segment end];
  end if;
  nobody := not l.waiting;
  in_line := l.waiting;
  if remains > 0 then
    if waits then
      q := conch.enqueue(k, me, rest, shown, t);
      l := conch.keep_line(l, greatest(conch.left_of(l.hash_until, ms), claim, remains) + lease, ms);
    end if;
    perform conch.put(l);
    return case when waits then array[0, remains, t, q, 0] else array[2, remains, t, 0, 0] end;
  end if;
  if not nobody then
    if waits then
      q := conch.enqueue(k, me, rest, shown, t);
      l := conch.keep_line(l, greatest(conch.left_of(l.hash_until, ms), claim) + lease, ms);
    end if;
    if shown > 0 and not patient then l := conch.drop_dead(l, me, rest); end if;
    r := conch.let_in(l, me, me, patient, lease, 0, claim, retention, t);
    l := r.l;
    if r.absent then
      perform conch.put(l);
      return case when waits then array[0, soon, t, q, 0] else array[2, soon, t, 0, 0] end;
    end if;
    if r.fence is not null then
      perform conch.tell_end(k, lease, 3);
      perform conch.put(l);
      return array[1, r.fence, t, r.segment];
    end if;
    nobody := not l.waiting;
    passed := (r.others > 0 and not nobody)::int;
  end if;
  if not (in_line and waits) and (nobody or kind in (KIND_REENTRANT, KIND_SEGMENTS)) then s := conch.fit(l, weight, visited, start); end if;
  if s is not null then
    l := conch.next_fence(l, 0, retention, t);
    size := case when weight = 0 then l.lim - l.used else least(weight, l.lim) end;
    l := conch.own_part(l, me, size, false, lease, s, visited, retention, t);
    perform conch.put(l);
    return array[1, l.fence, t, case when weight = 0 then size else s end];
  end if;
  if l.used > 0 and l.first_end < t + claim * 500 then l := conch.end_leases(l, retention, t); end if;
  remains := case when l.used = 0 then claim else (l.first_end - t + 999) / 1000 end;
  if waits and not in_line then
    q := conch.enqueue(k, me, rest, shown, t);
    l := conch.keep_line(l, greatest(conch.left_of(l.hash_until, ms), claim) + lease, ms);
  end if;
  perform conch.put(l);
  return case when waits then array[0, remains, t, q, passed] else array[2, remains, t, 0, passed] end;
end $$;

create or replace function conch.adopt_permit(k bytea, me text, lease bigint, retention bigint, not_after bigint, origin text, kind_ integer)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; mine conch.part;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  l := conch.without_expired(l, ms);
  if l.owner_until <> -1 or (l.hash_until <> -1 and l.kind <> kind_) then perform conch.wrong_kind(); end if;
  perform conch.quiet(lease, t);
  update conch.part p set claimed = false, ends = greatest(p.ends, t + lease * 1000)
  where p.key = k and p.id = me and p.ends > t and p.weight > 0 returning * into mine;
  if not found then
    delete from conch.part p where p.key = k and p.id = split_part(origin, ' ', 1) and p.fence::text = split_part(origin, ' ', 2) and p.ends > t
      and p.weight > 0 returning * into mine;
    if not found then return array[2, 0, t]; end if;
    delete from conch.part p where p.key = k and p.id = me;
    insert into conch.part values (k, me, mine.weight, mine.fence, false, greatest(mine.ends, t + lease * 1000), mine.segment);
  end if;
  l := conch.keep_fence(conch.live(l, lease, t), mine.fence, retention, t);
  perform conch.put(l);
  return array[1, mine.fence, t, mine.segment];
end $$;

create or replace function conch.release_permit(k bytea, me text, keep boolean, patient boolean, lease bigint, claim bigint, retention bigint,
  kind integer, lim bigint, weight bigint, visited text, keeps bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; mine conch.part; r conch.let_in; is_mine boolean; was_first boolean := false; floor bigint := 0; remains bigint;
begin
  l := conch.load(k);
  t := conch.now_us();
  perform conch.quiet(greatest(lease, claim), t);
  l := conch.permits(conch.without_expired(l, t / 1000), kind, lim, retention, t);
  select * into mine from conch.part p where p.key = k and p.id = me and p.ends > t;
  is_mine := found;
  if is_mine and keep then
    l := conch.extend_part(l, me, lease, retention, t);
    if mine.claimed then perform conch.tell_end(k, lease, 3); end if;
    r := conch.let_in(l, '', me, patient, 0, 0, claim, retention, t);
    perform conch.put(r.l);
    return array[2, mine.fence, case when weight = 0 then mine.weight else mine.segment end, t];
  end if;
  if is_mine and keeps = 0 and patient and l.waiting and conch.awaits_any(k, me, l.lim - l.used + mine.weight) then
    perform conch.put(l);
    return array[3, 0, 1, t];
  end if;
  if not is_mine then
    was_first := l.used > 0 and l.waiting and conch.is_first(k, me, ' ' || weight || ' ' || visited);
    l := conch.leave_line(l, me, ' ' || weight || ' ' || visited);
  elsif keeps > 0 then
    floor := mine.fence;
    l.used := l.used - greatest(mine.weight - keeps, 0);
    update conch.part p set weight = least(p.weight, keeps) where p.key = k and p.id = me;
    l := conch.note_used(l, retention, t);
  else
    floor := mine.fence;
    l := conch.take_back(l, mine, retention, t);
  end if;
  r := conch.let_in(l, '', me, patient, 0, floor, claim, retention, t);
  l := r.l;
  if l.used = 0 and conch.quiet(0, t) = 0 then l := conch.tell_freed(l); end if;
  remains := greatest(0, (l.first_end - t + 999) / 1000);
  if not is_mine and l.used > 0 and l.waiting and (was_first or remains <= claim) then
    perform conch.tell_end(k, remains, case when was_first then 1 else 3 end);
  end if;
  perform conch.put(l);
  return array[is_mine::int, (r.others > 0)::int, l.waiting::int, t];
end $$;

create or replace function conch.renew_permits(ks bytea[], ids text[], fences bigint[], leases bigint[], retention bigint)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; r bigint[]; f bigint; ok boolean; was_claim boolean;
begin
  perform conch.lock_rows(ks, false);
  t := conch.now_us();
  ms := t / 1000;
  perform conch.quiet((select max(x) from unnest(leases) x), t);
  r := array[t];
  for i in 1 .. cardinality(ks) loop
    if retention <> 0 then select p.claimed into was_claim from conch.part p where p.key = ks[i] and p.id = ids[i]; end if;
    update conch.part p set claimed = false, ends = greatest(p.ends, t + leases[i] * 1000) from conch.lock x
    where x.key = ks[i] and x.hash_until >= ms and p.key = ks[i] and p.id = ids[i] and p.ends > t and (fences[i] is null or p.fence = fences[i])
    returning p.fence into f;
    ok := found;
    if ok then
      select * into l from conch.lock x where x.key = ks[i];
      l := conch.live(l, leases[i], t);
      if retention <> 0 then l := conch.keep_fence(conch.without_expired(l, ms), f, retention, t); end if;
      perform conch.put(l);
      if retention <> 0 and was_claim then
        perform conch.tell_end(ks[i], leases[i], 3);
        perform conch.tell_watchers_end(ks[i], leases[i]);
      end if;
    end if;
    r := r || ok::int::bigint;
  end loop;
  return r;
end $$;

create or replace function conch.set_limit(k bytea, claim bigint, retention bigint, lim bigint, by bigint, if_unset boolean)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; r conch.let_in;
begin
  l := conch.load(k);
  t := conch.now_us();
  perform conch.quiet(claim, t);
  l := conch.permits(conch.without_expired(l, t / 1000), KIND_SEMAPHORE, lim, retention, t);
  if not (l.limit_set and if_unset) then
    l.limit_set := true;
    l.lim := case when by <> 0 then least(greatest(l.lim + by, 1), MOST_PERMITS) else lim end;
    l := conch.note_used(l, retention, t);
  end if;
  r := conch.let_in(l, '', '', false, 0, 0, claim, retention, t);
  perform conch.put(r.l);
  return array[(r.l).used, t, ((r.l).waiting and r.others > 0)::int, (r.l).lim];
end $$;
