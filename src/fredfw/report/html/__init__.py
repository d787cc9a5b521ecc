"""Reports as one HTML file that needs nothing else: no network, no script. Rendering a page needs jinja2."""
