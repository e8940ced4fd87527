"""An endpoint that is one of several replicas: any of them takes the requests of any legacy session."""
