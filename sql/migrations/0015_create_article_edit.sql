-- Writer: export. What it last wrote of a page: the base against which a person's edit is read. machine is the body
-- without a person's words, its footnotes by place; cites are the page's footnotes in order, links its targets' keys.
create table kb.page_base (
    path    text  primary key,
    folder  text  not null,
    key     text  not null,
    sha     text  not null,
    text    text  not null,
    machine text  not null,
    cites   jsonb not null,
    links   jsonb not null
);

-- Writer: export. A person's words on a page, kept for every later one, even while its concept is away.
create table kb.article_edit (
    folder    text        not null check (folder in ('concepts', 'sources')),
    key       text        not null,
    path      text        not null,
    base      text        not null,
    theirs    text        not null,
    heading   text,
    front     jsonb       not null,
    tail      text        not null,
    cites     jsonb       not null,
    edited_at timestamptz not null default now(),
    primary key (folder, key)
);
