cd /work/notes/s21-torchfiles
./many.sh ftorch 400 test_jit --timeout 20 -k "TestScript and not no_batch_dim and not TestScriptList and not TestScriptDict"; cp S/ftorch/test_jit.xml S/ftorch/test_jit_script.xml
