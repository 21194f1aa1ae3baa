-- Whom a model names as a source's authors, and when it says it is from; shown where no reader found them.
alter table kb.extraction add column authors text[] not null default '{}', add column year int;
