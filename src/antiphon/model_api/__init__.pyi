from antiphon.model_api.endpoint import serve_model_api as serve_model_api
