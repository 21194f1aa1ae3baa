-- A role that reads the store and counts the uses of recall, and nothing else. Roles belong to the whole cluster,
-- so it may be there already. Whoever may not make roles gets an error, and reads in read-only transactions.
create or replace function kb.make_reader_role() returns void
language plpgsql volatile
set search_path = pg_catalog
as $$
begin
    if not exists (select from pg_roles where rolname = 'kbwiki_reader') then
        begin
            create role kbwiki_reader nologin;
        exception when duplicate_object or unique_violation then
            null;
        end;
    end if;
    execute format('grant kbwiki_reader to %I', current_user);
    grant usage on schema kb to kbwiki_reader;
    grant select on all tables in schema kb to kbwiki_reader;
    revoke all on kb.principal, kb.audit, kb.call, kb.cache from kbwiki_reader;
    grant execute on all functions in schema kb to kbwiki_reader;
end
$$;
