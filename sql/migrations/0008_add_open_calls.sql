-- A call is written down before it is made, so that what a killed run may have spent is known.
alter table kb.call add column owner text not null default '';
alter table kb.call drop constraint call_status_check;
alter table kb.call add constraint call_status_check
    check (status in ('open', 'ok', 'cached', 'truncated', 'failed', 'lost'));
create index call_open on kb.call (id) where status = 'open';
