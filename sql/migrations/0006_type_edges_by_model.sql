-- Edges that a language model types: packs of questions, what was answered, and what the rules said before.

-- code: how a prompt names the type. Kinds, where given, are those that an end may have.
alter table kb.edge_type add column code text unique, add column head_kinds text[], add column tail_kinds text[];

-- A pattern is matched against the whole reading of a sentence, so where it stands needs no column.
alter table kb.edge_rule drop column scope, drop column unless;

-- The rules' vote is kept beside the verdict: it breaks ties. Answers are the model's own lines, in both orders.
alter table kb.edge
    add column rule_type       text references kb.edge_type,
    add column rule_head_id    bigint,
    add column rule_confidence real,
    add column model           text    not null default '',
    add column prompt_version  text    not null default '',
    add column answer          text    not null default '',
    add column mirror_answer   text    not null default '',
    add column needs_review    boolean not null default false;

-- statement: one sentence names both ends. link: a source about one end links to the other.
alter table kb.edge_evidence
    add column kind text not null default 'statement' check (kind in ('statement', 'link'));

-- Writer: classify-edges. A prompt on up to 20 edges; once made it never changes, so that it is paid for once.
create table kb.batch (
    id             bigint generated always as identity primary key,
    pass           text        not null check (pass in ('first', 'mirror', 'single')),
    seed           text        not null,
    prompt         text        not null,
    prompt_version text        not null,
    model_id       text        not null,
    status         text        not null default 'open' check (status in ('open', 'done', 'failed', 'dropped')),
    response       text,
    reason         text        not null default '',
    made_at        timestamptz not null default clock_timestamp(),
    done_at        timestamptz
);

-- Writer: classify-edges. What a batch asks: its line number, the edge, and which end is called A.
create table kb.batch_item (
    batch_id     bigint not null references kb.batch on delete cascade,
    line         int    not null,
    edge_id      bigint not null references kb.edge on delete cascade,
    a_id         bigint not null references kb.concept on delete cascade,
    b_id         bigint not null references kb.concept on delete cascade,
    evidence_sha text   not null,
    answer       text   not null default '',
    primary key (batch_id, line)
);
create index batch_item_edge on kb.batch_item (edge_id);
create index batch_item_a on kb.batch_item (a_id);
create index batch_item_b on kb.batch_item (b_id);
create index batch_status on kb.batch (status);

-- Their results or arguments changed.
drop function if exists kb.rule_votes();
drop function if exists kb.classify_by_rules();
drop function if exists kb.negated(text, text);

-- Writer: the command edge. A person's word on how two concepts are linked, by their keys; it outlives what is
-- read and resolved anew. type: null says that they are not.
create table kb.edge_decision (
    head_key   text        not null,
    tail_key   text        not null,
    type       text        references kb.edge_type,
    decided_at timestamptz not null default clock_timestamp(),
    primary key (head_key, tail_key),
    check (head_key <> tail_key)
);
