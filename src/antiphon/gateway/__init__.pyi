from antiphon.gateway.gateway import Gateway as Gateway, Proxy as Proxy
from antiphon.gateway.names import Filters as Filters
from antiphon.gateway.terms import RunOptions as RunOptions, SignIn as SignIn
from antiphon.host.review.definitions import ShownServer as ShownServer, ShownTool as ShownTool
