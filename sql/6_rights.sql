-- An upgrade grants roles with the rights of the earlier version the same rights on new tables and functions, because the database's default
-- privileges may not include them.
do $$ declare g record; begin
  for g in
    select 'grant ' || a.privilege_type || ' on ' || t.oid::regclass as rights, a.grantee
    from pg_class l, lateral aclexplode(l.relacl) a, pg_class t
    where l.oid = 'conch.lock'::regclass and t.relnamespace = l.relnamespace and t.relkind = 'r' and t.relowner <> a.grantee
      and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
      and exists (select from aclexplode(l.relacl) w where w.grantee = a.grantee and w.privilege_type = 'INSERT')
      and not exists (select from aclexplode(t.relacl) b where b.grantee = a.grantee and b.privilege_type = a.privilege_type)
    union all
    select 'grant execute on function ' || f.oid::regprocedure, a.grantee
    from pg_proc c, lateral aclexplode(coalesce(c.proacl, acldefault('f', c.proowner))) a, pg_proc f
    where c.oid = 'conch.version()'::regprocedure and f.pronamespace = c.pronamespace and f.proowner <> a.grantee
      and not exists (select from aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) b where b.grantee in (0, a.grantee))
  loop
    execute g.rights || ' to ' || case g.grantee when 0 then 'public' else g.grantee::regrole::text end;
  end loop;
end $$;
