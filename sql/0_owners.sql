-- conch's locks in PostgreSQL. Run this as the database's owner or as a superuser. A client runs it by itself if its role may create schemas.
-- To upgrade, run the script of the newer version: it changes the existing schema and keeps all locks.
-- Each other role needs: grant usage on schema conch to ROLE; grant execute on all functions in schema conch to ROLE;
-- grant select, insert, update, delete on all tables in schema conch to ROLE.
select pg_catalog.set_config('search_path', '', true);  -- names below are PostgreSQL's own, whatever other schemas contain

-- If two sessions find no schema, the second waits here until the first has committed or failed.
do $$ begin
  if pg_catalog.to_regnamespace('conch') is null then create schema conch; end if;
exception when unique_violation or duplicate_schema then null;
end $$;

-- All clients run the functions of this schema with their own rights. So only roles that control this session anyway (its own role, the database's
-- owner, superusers) may own an object in the schema or be able to add one. Clients ask the question between the two marks before they run any of it.
-- The answer is '' if all is well; otherwise it names the problem and the remedy.
do $check$ declare wrong text := (
-- question
select coalesce((select f.what || ', so others could run code with the rights of all users of conch: ' || x.todo
  from (
    select 1 as n, 'the schema conch is owned by ' || n.nspowner::pg_catalog.regrole as what, '' as todo, n.nspowner as role
      from pg_catalog.pg_namespace n where n.nspname = 'conch'
    union all
    select 2, pg_catalog.pg_describe_object(d.classid, d.objid, 0) || ' is owned by ' || s.refobjid::pg_catalog.regrole, '', s.refobjid
      from pg_catalog.pg_namespace n
      join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass and d.refobjid = n.oid
      join pg_catalog.pg_shdepend s on s.classid = d.classid and s.objid = d.objid and s.deptype = 'o'
        and s.dbid = (select b.oid from pg_catalog.pg_database b where b.datname = pg_catalog.current_database())
      where n.nspname = 'conch'
    union all
    select 3, 'the trigger ' || t.tgname || ' on ' || c.oid::pg_catalog.regclass || ' calls a function of ' || p.proowner::pg_catalog.regrole,
        'drop trigger ' || pg_catalog.quote_ident(t.tgname) || ' on ' || c.oid::pg_catalog.regclass, p.proowner
      from pg_catalog.pg_namespace n join pg_catalog.pg_class c on c.relnamespace = n.oid join pg_catalog.pg_trigger t on t.tgrelid = c.oid
      join pg_catalog.pg_proc p on p.oid = t.tgfoid where n.nspname = 'conch'
    union all
    select 4, r.oid::pg_catalog.regclass || ', a table of ' || r.relowner::pg_catalog.regrole || ', refers to ' || c.oid::pg_catalog.regclass,
        'alter table ' || r.oid::pg_catalog.regclass || ' drop constraint ' || pg_catalog.quote_ident(k.conname), r.relowner
      from pg_catalog.pg_namespace n join pg_catalog.pg_class c on c.relnamespace = n.oid
      join pg_catalog.pg_constraint k on k.confrelid = c.oid and k.contype = 'f' join pg_catalog.pg_class r on r.oid = k.conrelid
      where n.nspname = 'conch'
    union all
    select 5, case a.grantee when 0 then 'everybody' else a.grantee::pg_catalog.regrole::text end || ' may create objects in the schema conch',
        'revoke create on schema conch from ' || case a.grantee when 0 then 'public' else a.grantee::pg_catalog.regrole::text end, a.grantee
      from pg_catalog.pg_namespace n, lateral pg_catalog.aclexplode(n.nspacl) a where n.nspname = 'conch' and a.privilege_type = 'CREATE'
    union all
    select 6, case a.grantee when 0 then 'everybody' else a.grantee::pg_catalog.regrole::text end || ' may make triggers on '
          || c.oid::pg_catalog.regclass,
        'revoke trigger on all tables in schema conch from ' || case a.grantee when 0 then 'public' else a.grantee::pg_catalog.regrole::text end, a.grantee
      from pg_catalog.pg_namespace n join pg_catalog.pg_class c on c.relnamespace = n.oid, lateral pg_catalog.aclexplode(c.relacl) a
      where n.nspname = 'conch' and a.privilege_type = 'TRIGGER'
  ) f(n, what, todo_, role),
  lateral (select case f.todo_ when '' then 'drop schema conch cascade, and let the database''s owner or a superuser run postgresql.sql'
                  else f.todo_ end) x(todo)
  where not exists (select from pg_catalog.pg_roles r, pg_catalog.pg_database b
                    where r.oid = f.role and b.datname = pg_catalog.current_database()
                      and (r.rolsuper or r.oid = b.datdba or r.rolname = current_user or r.rolname = 'pg_database_owner'))
  order by f.n, f.what limit 1), '')
-- end of question
);
begin
  if wrong <> '' then raise exception using errcode = 'CN003', message = wrong; end if;
end $check$;

-- One session at a time runs the rest. A role without rights on this table cannot block it.
do $$ begin
  if to_regclass('conch.settings') is null then
    create table conch.settings (one boolean primary key check (one), longest_lease bigint not null);  -- in ms, logged
  end if;
exception when unique_violation or duplicate_table then null;
end $$;
lock table conch.settings in share row exclusive mode;
