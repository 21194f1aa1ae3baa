"""Closed word lists of English and Russian, as lemmas: what is never a concept, and what hints at a
kind.

Only words of a closed class or of research prose in general; no word of any one field belongs here.
"""

from kbwiki.records import ConceptKind


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_MODIFIERS = _words(
    "a an the this that these those such other another many several some any each every all "
    "both few more most "
    "much same different various certain new old first second third last next previous recent "
    "current further "
    "following given own main key important large small big great good bad high low long short "
    "full whole entire "
    "only single double possible usual common typical particular specific special general "
    "simple modern "
    "propose use report learn show know call base require increase similar additional initial "
    "final original "
    "actual real able available useful necessary sufficient different single plain ordinary "
    "usual classic classical pure "
    "этот тот такой другой иной многие некоторый каждый весь сам самый новый старый первый "
    "второй третий последний "
    "следующий предыдущий недавний данный основной главный важный большой малый маленький "
    "хороший плохой высокий "
    "низкий полный целый один единственный возможный обычный общий частый типичный особый "
    "простой современный "
    "свой наш их его ее какой который любой разный различный определенный нужный необходимый "
    "похожий "
    "это то все классический чистый прежний длинный явный дополнительный текущий исходный итоговый "
    "конечный оба много несколько мой ваш чей ряд"
)
"""Lemmas cut from the front of a noun phrase."""

DETERMINERS_RU = _words(
    "этот тот такой другой иной весь каждый любой свой наш ваш мой его ее их какой который "
    "некоторый сам самый"
)
"""Lemmas that end a Russian genitive tail before it begins."""

GENERIC_HEADS = _words(
    "way part time number amount kind sort type form case example instance role thing fact "
    "result set group list "
    "level point step place line end side work paper article author section chapter figure "
    "table page note idea "
    "question answer reason purpose goal aim problem issue difference advantage disadvantage "
    "benefit cost effect "
    "impact change increase decrease use usage application need ability value size length "
    "amount rate degree order "
    "range row column hand word name term definition year month day week hour minute second "
    "century decade people "
    "man woman person world country city state lot bit pair piece couple dozen half quarter "
    "percent share sense "
    "basis detail aspect property factor variant version series study experiment evidence "
    "input output "
    "process approach method model system setting choice option rest whole course "
    "способ часть время число количество вид тип форма случай пример роль вещь факт результат "
    "набор группа список "
    "уровень точка шаг место линия конец сторона работа статья автор раздел глава рисунок "
    "таблица страница заметка "
    "идея вопрос ответ причина цель проблема отличие преимущество недостаток эффект изменение "
    "рост использование "
    "применение потребность способность значение размер длина скорость степень порядок ряд "
    "слово имя термин "
    "определение год месяц день неделя час минута секунда век человек мир страна город пара "
    "половина процент доля "
    "смысл основа деталь свойство вариант версия исследование эксперимент вход выход процесс "
    "подход метод модель "
    "система выбор счет момент раз помощь понятие миллион тысяча ошибка потеря поиск роль "
    "теория след образ качество мера сила ход сообщение мнение сведение данные оценка вывод"
)
"""Lemmas that make no concept as a lone head, or under a plain modifier, without a strong sign."""

TEST_HEADS = _words("task test benchmark dataset задача тест бенчмарк датасет")
"""A name with one of these and the name alone are the same thing."""

FALSE_NOUNS = _words(
    "outperform use compress combine require improve extend propose introduce reduce achieve "
    "store update "
    "read write need help keep replace generalise generalize learn depend perform apply rely "
    "consist contain "
    "include belong solve employ treat turn become give take make allow enable lead differ "
    "remain carry mix run "
    "show hold add let see grow serve reach start stop play work compare scale fit pay fail "
    "tend share split"
)
"""Verbs that the tagger often takes for plural nouns in the third person."""

GERUNDS = _words(
    "using including making giving taking having being doing getting going according following "
    "during "
    "containing requiring allowing leading depending consisting providing showing combining "
    "adding keeping"
)

HEADING_STOP = _words(
    "introduction background overview summary conclusion conclusions discussion results method "
    "methods evaluation "
    "experiments limitations motivation example examples notes abstract training variants "
    "history definition "
    "architecture implementation applications references contents appendix acknowledgements "
    "setup comparison "
    "properties idea details practice origins use uses status links analysis criticism context "
    "введение обзор итоги заключение выводы обсуждение результаты метод методы оценка "
    "эксперименты ограничения "
    "мотивация пример примеры заметки аннотация обучение варианты история определение "
    "архитектура реализация "
    "применение применения литература содержание приложение сравнение свойства идея детали "
    "практика устройство "
    "связи связь формула проверка смысл критика происхождение контекст"
)
"""Headings that name a section of any paper, no concept."""

ANAPHORA = _words(
    "it its this that these those they their them he she his her such here there then thus "
    "hence therefore however "
    "moreover furthermore also instead finally additionally similarly likewise otherwise "
    "consequently besides "
    "nevertheless still but and or so because which both another one others below above first "
    "second third "
    "next later for this "
    "это этот эта эти он она оно они его ее их им такой такая такие такое здесь там тогда "
    "поэтому однако кроме "
    "также затем итак значит наконец иначе зато но и или а ведь потому который которая первый "
    "второй третий тот та "
    "те то ниже выше далее позже при таким отсюда"
)
"""Words with which a sentence leans on the one before it."""

_KINDS: dict[ConceptKind, str] = {
    "model": (
        "model network transformer architecture rnn lstm family layer block backbone encoder "
        "decoder net machine llm module agent модель сеть трансформер архитектура слой "
        "семейство блок кодировщик модуль агент"
    ),
    "method": (
        "method algorithm optimizer optimiser rule technique procedure scheme approach solver "
        "scan iteration training learning attention descent regularization normalization "
        "mechanism strategy backpropagation encoding embedding pruning decoding sampling "
        "search update decay step quantization metric gating метод алгоритм оптимизатор "
        "правило приём прием процедура схема подход решатель сканирование итерация внимание "
        "спуск механизм стратегия кодирование дообучение регуляризация нормализация затухание"
    ),
    "task": (
        "task problem modelling modeling recall retrieval forgetting classification "
        "translation recognition answering forecasting reasoning prediction overfitting congestion "
        "deadlock bottleneck leakage scarcity blocking instability starvation задача проблема "
        "переобучение перегрузка взаимоблокировка утечка нехватка неустойчивость "
        "моделирование вспоминание поиск забывание классификация перевод распознавание "
        "прогнозирование"
    ),
    "data": (
        "benchmark dataset corpus metric score test suite perplexity accuracy haystack "
        "collection database бенчмарк датасет корпус метрика тест перплексия точность "
        "коллекция"
    ),
    "organisation": (
        "university institute laboratory lab company research inc corporation school "
        "университет институт лаборатория компания организация"
    ),
    "person": (
        "researcher psychologist scientist physicist mathematician neuroscientist engineer "
        "author исследователь психолог учёный ученый физик математик нейробиолог инженер"
    ),
}
KIND_HEADS = {word: kind for kind, words in _KINDS.items() for word in words.split()}
"""Head lemma of a name or of its definition's genus -> kind."""

PARTITIVES = _words(
    "form kind type sort variant version class member part component case example instance "
    "special way "
    "форма вид тип вариант версия класс часть компонент случай пример разновидность частный"
)
"""Heads that say nothing of their own in "is a form of X": the kind is X's."""

AGENT_VERBS = _words(
    "propose introduce develop invent describe present create publish formulate derive "
    "предложить разработать создать описать представить сформулировать ввести опубликовать "
    "изобрести"
)

ASKING = _words(
    "what which who whom whose how why when where do does did done is are was were be been can "
    "could may might will would should the an and or of in on at by to for from with about as "
    "that this these those it its there many much have has had use mean say tell know work "
    "differ between что как чем чего кто где когда куда откуда почему зачем сколько какой "
    "который чей ли быть это этот тот для при из про на по от до за над под между или не со об "
    "мочь есть такой отличаться означать значить говорить работать использоваться "
)
"""Words that ask, or that any question may hold."""

FUNCTION = _words(
    "i me my we our us you your he him his she her they them their there here some any each no "
    "not nor only own so too very just also but if or because while both all please tell than "
    "then again once such other into onto over under off out up down same s t ok yes hi hello "
    "да нет же бы вот ну уж еще уже тут там здесь тогда потом очень просто лишь только "
    "пожалуйста расскажи рассказать скажи сказать ага спасибо привет здравствовать весь каждый"
)
"""Words besides ASKING that nothing can be looked for by."""

FRAMING = _words(
    "common share shared same similar similarity difference different differ distinction compare "
    "comparison comparative versus vs contrast relation relate related relationship connect "
    "connected connection link path chain lead route way explain explanation describe description "
    "give list show name example overview summary summarize brief briefly short detail detailed "
    "define definition meaning term concept notion idea kind type sort thing role purpose "
    "actually exactly really basically main major need want like find help question answer "
    "understand learn happen call "
    "общий общее сходство сходный похожий подобный разница различие различаться отличие сравнить "
    "сравнивать сравнение сравнительный против связь связать связывать связанный соединить "
    "соединять соединение путь дорога цепочка вести привести приводить объяснить объяснять "
    "объяснение пояснить описать описывать описание назвать называть назваться называться "
    "перечислить показать показывать пример обзор кратко короткий подробно подробный определение "
    "определить значение термин понятие роль смысл суть вид тип способ образ именно вообще "
    "основной главный нужно нужный хотеть помочь найти вопрос ответ ответить понять узнать "
    "устроить происходить зависеть состоять служить применяться"
)
"""Words with which a question is put: of two of its words they say the less."""

BARE_METHODS = _words(
    "method algorithm technique procedure scheme approach mechanism "
    "метод алгоритм техника процедура схема подход механизм"
)
"""Words for a kind without which a name of two words and more names the same."""

BARE_NAMES = _words(
    "model architecture optimizer benchmark dataset family "
    "модель архитектура оптимизатор бенчмарк датасет семейство"
)
"""Words for a kind without which a proper name names the same."""

HEDGES = _words(
    "about around approximately roughly nearly almost over under than least most up between from "
    "to not no never often usually may might can could if each every per times fold respectively "
    "first second average or "
    "около примерно приблизительно почти более менее чем до от между не ни никогда часто обычно "
    "мочь если каждый раз соответственно средний или свыше минимум максимум"
)
"""Lemmas with which a number is no plain one."""

MULTIPLIERS = {
    "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "k": 1e3, "m": 1e6,
    "b": 1e9, "bn": 1e9, "тысяча": 1e3, "тыс": 1e3, "миллион": 1e6, "млн": 1e6, "миллиард": 1e9,
    "млрд": 1e9, "триллион": 1e12, "трлн": 1e12,
}  # fmt: skip

UNITS = {
    "%": "percent", "percent": "percent", "процент": "percent", "parameter": "parameter",
    "параметр": "parameter", "token": "token", "токен": "token", "layer": "layer", "слой": "layer",
    "head": "head", "голова": "head", "task": "task", "задача": "task",
    "year": "years", "год": "years", "лето": "years", "day": "day", "день": "day", "hour": "hour",
    "час": "hour", "minute": "minute", "минута": "minute", "second": "second",
    "секунда": "second", "km": "km", "kilometre": "km", "kilometer": "km", "км": "km",
    "километр": "km", "metre": "metre", "meter": "metre", "м": "metre", "метр": "metre",
    "kg": "kg", "kilogram": "kg", "кг": "kg", "килограмм": "kg", "gram": "gram", "грамм": "gram",
    "г": "gram", "people": "person", "person": "person", "человек": "person", "°C": "celsius",
    "language": "language", "язык": "language", "author": "author", "автор": "author",
    "page": "page", "страница": "page", "bit": "bit", "бит": "bit", "question": "question",
    "вопрос": "question", "example": "example", "пример": "example", "byte": "byte",
    "байт": "byte", "dollar": "dollar", "доллар": "dollar", "chromosome": "chromosome",
    "хромосома": "chromosome",
}  # fmt: skip
"""What is counted, by the lemma that stands after a number, one name for both languages."""

CONTRASTS = tuple(
    (_words(one), _words(other))
    for one, other in (
        ("short brief краткий короткий кратковременный краткосрочный",
         "long lasting долгий длинный долговременный долгосрочный"),
        ("fast quick rapid быстрый", "slow медленный"),
        ("local локальный местный", "global глобальный"),
        ("inner internal внутренний", "outer external внешний наружный"),
        ("public open открытый публичный общедоступный",
         "private closed secret закрытый частный приватный секретный"),
        ("supervised учитель", "unsupervised без"),
        ("linear линейный", "nonlinear softmax quadratic нелинейный квадратичный"),
        ("forward прямой прямое", "backward reverse inverse обратный"),
        ("positive положительный", "negative отрицательный"),
        ("primary первичный", "secondary вторичный"),
        ("symmetric симметричный", "asymmetric асимметричный"),
        ("continuous непрерывный", "discrete дискретный"),
        ("absolute абсолютный", "relative относительный"),
        ("static статический", "dynamic динамический"),
        ("sparse разреженный", "dense плотный"),
        ("deep глубокий", "shallow мелкий неглубокий"),
        ("explicit явный", "implicit неявный"),
        ("left левый", "right правый"),
        ("upper верхний", "lower нижний"),
        ("high высокий", "low низкий"),
        ("max maximum maximal максимум максимальный", "min minimum minimal минимум минимальный"),
        ("input входной вход", "output выходной выход"),
        ("encoder encoding кодировщик кодирование кодер энкодер",
         "decoder decoding декодировщик декодирование декодер"),
        ("offline офлайн автономный", "online онлайн"),
        ("soft мягкий", "hard жесткий твердый"),
        ("strong сильный", "weak слабый"),
        ("male мужской", "female женский"),
        ("autoregressive авторегрессионный", "bidirectional двунаправленный"),
        ("causal причинный каузальный", "noncausal непричинный"),
        ("supply предложение", "demand спрос"),
        ("query запрос", "key ключ"),
        ("inter", "intra"),
        ("parallel параллельный", "sequential serial последовательный"),
        ("finite конечный", "infinite бесконечный"),
        ("prior априорный", "posterior апостериорный"),
        ("directed ориентированный", "undirected неориентированный"),
        ("deterministic детерминированный", "stochastic random стохастический случайный"),
        ("row строка", "column столбец"),
        ("cyclic циклический", "acyclic ациклический"),
    )
)  # fmt: skip
"""Opposites, whose vectors lie close: two names with a word of each side are two things."""

BACKGROUND = tuple(
    sorted(
        _words(
            "method result problem question theory experiment water house year country city "
            "child money government school book music language law war health animal plant "
            "tree river mountain sea sky sun light sound colour number time space energy "
            "force body mind work machine computer program data signal image word text "
            "history science art market company food weather road метод результат проблема "
            "вопрос теория эксперимент вода дом год страна город ребенок деньги правительство "
            "школа книга музыка язык закон война здоровье животное растение дерево река гора "
            "море небо солнце свет звук цвет число время пространство энергия сила тело разум "
            "работа машина компьютер программа данные сигнал изображение слово текст история "
            "наука искусство рынок компания еда погода дорога "
        )
    )
)
"""Everyday words of both languages, against which the vectors of names are measured: so a small
store has something to compare with too.
"""
