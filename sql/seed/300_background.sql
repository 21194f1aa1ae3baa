-- Everyday sentences of both languages. Cosines of a model have no zero; how close these come to a question is it.
insert into kb.background (id, text, text_sha)
select t.id, t.text, kb.sha(t.text)
from (values
    (1, 'The train leaves the station at nine.'), (2, 'Add two eggs and a cup of flour.'),
    (3, 'The court adjourned until Monday.'), (4, 'A cat slept on the warm windowsill.'),
    (5, 'Interest rates rose by a quarter of a point.'), (6, 'The team scored twice before half-time.'),
    (7, 'Heavy rain is expected over the weekend.'), (8, 'Please sign the form and return it by post.'),
    (9, 'The museum opens a new wing this spring.'), (10, 'Update the package and restart the service.'),
    (11, 'Her grandmother kept bees behind the house.'), (12, 'The river floods the lower fields each year.'),
    (13, 'Поезд отправляется с вокзала в девять.'), (14, 'Добавьте два яйца и стакан муки.'),
    (15, 'Суд перенёс заседание на понедельник.'), (16, 'Кошка спала на тёплом подоконнике.'),
    (17, 'Ставка выросла на четверть пункта.'), (18, 'Команда забила дважды до перерыва.'),
    (19, 'На выходных ожидается сильный дождь.'), (20, 'Подпишите бланк и верните его по почте.'),
    (21, 'Весной музей откроет новое крыло.'), (22, 'Обновите пакет и перезапустите службу.'),
    (23, 'Бабушка держала пчёл за домом.'), (24, 'Каждый год река заливает нижние луга.')
) as t (id, text)
on conflict (id) do update set text = excluded.text, text_sha = excluded.text_sha
where kb.background.text_sha <> excluded.text_sha;
