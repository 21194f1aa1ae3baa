-- Writer: the commands merge and unmerge. A person's word on two names, by lemma key; resolve obeys it.
create table kb.decision (
    first        text        not null,
    second       text        not null,
    same         boolean     not null,
    first_title  text        not null,
    second_title text        not null,
    decided_at   timestamptz not null default now(),
    primary key (first, second),
    check (first <> second)
);
