from antiphon.client.answers.answerers import (
    Elicitor as Elicitor,
    Extension as Extension,
    OnRound as OnRound,
    Roots as Roots,
    Sampler as Sampler,
)
from antiphon.client.by_hand import BY_HAND as BY_HAND, Rounds as Rounds
from antiphon.client.client import Client as Client, OnProgress as OnProgress
from antiphon.client.client_middleware import (
    ClientMiddleware as ClientMiddleware,
    ClientNext as ClientNext,
    ClientRequest as ClientRequest,
)
from antiphon.client.connection.targets import Serves as Serves, Target as Target
from antiphon.client.notifications import Change as Change, Listening as Listening
from antiphon.client.remote_skill import RemoteSkill as RemoteSkill
from antiphon.client.rounds.loop import Ask as Ask, PendingRound as PendingRound, RoundLimits as RoundLimits
from antiphon.client.task import TaskHandle as TaskHandle, TaskUpdate as TaskUpdate
from antiphon.client.tool_calls import Confirmer as Confirmer, Confirming as Confirming
