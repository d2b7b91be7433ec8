// Last: all views are there.
lockstepCore().then(module => {
  core = module;
  start();
}, error => { $('wait').textContent = `The page cannot start here: ${error}. It needs a browser with WebAssembly.`; });
