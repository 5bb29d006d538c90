"""The full screen: a view drawn as rows, and keys made into commands.

Textual lends the screen, the mouse and the loop; every row is drawn by `prong.face.draw`.
"""
