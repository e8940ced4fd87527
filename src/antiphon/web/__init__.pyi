from antiphon.web.page_server import ReviewPage as ReviewPage
from antiphon.web.page_server import RunningPage as RunningPage, running_page as running_page, serve_page as serve_page
