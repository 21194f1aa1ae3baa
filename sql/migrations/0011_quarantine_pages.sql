-- A page that is most likely none waits here for a better copy, or for a person's word.
alter table kb.attempt add column is_quarantined boolean not null default false;
