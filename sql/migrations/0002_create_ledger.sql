-- What language models were asked, what it cost, and what they replied.

-- Writer: ledger. One row per call, also of one that failed or that the cache answered.
create table kb.call (
    id              bigint generated always as identity primary key,
    task            text        not null,
    provider        text        not null,
    model           text        not null,
    reply_model     text        not null default '',
    item            text        not null,
    status          text        not null check (status in ('ok', 'cached', 'truncated', 'failed')),
    reason          text        not null default '',
    prompt_sha      text        not null,
    input_tokens    int         not null default 0,
    output_tokens   int         not null default 0,
    cached_tokens   int         not null default 0,
    thinking_tokens int         not null default 0,
    usd             numeric(14, 8),
    ms              int         not null default 0,
    called_at       timestamptz not null default clock_timestamp()
);
create index call_called_at on kb.call (called_at);

-- Writer: ledger. Replies by the hash of task, model, prompt and parameters.
create table kb.cache (
    key       text        primary key,
    task      text        not null,
    model     text        not null,
    reply     text        not null,
    cached_at timestamptz not null default now()
);

-- A model's own wording of a claim; its text stays the source's.
alter table kb.claim add column statement text not null default '';
